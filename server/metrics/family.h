// Metrics as Prometheus has them, from numbers that are kept elsewhere.
#ifndef RECURVE_SERVER_METRICS_FAMILY_H_
#define RECURVE_SERVER_METRICS_FAMILY_H_

#include <string>
#include <utility>
#include <vector>

#include "prometheus/metric_family.h"

namespace recurve::server {

using Families = std::vector<prometheus::MetricFamily>;
using Labels = std::vector<std::pair<std::string, std::string>>;

// One metric with all its label values: Counter(...) or Gauge(...), then Add
// for each.
class Family {
 public:
  static Family Counter(std::string name, std::string help) {
    return Family(prometheus::MetricType::Counter, std::move(name),
                  std::move(help));
  }
  static Family Gauge(std::string name, std::string help) {
    return Family(prometheus::MetricType::Gauge, std::move(name),
                  std::move(help));
  }
  static Family Histogram(std::string name, std::string help) {
    return Family(prometheus::MetricType::Histogram, std::move(name),
                  std::move(help));
  }

  // Of a counter or gauge.
  void Add(const Labels& labels, double value);
  void Add(const Labels& labels, prometheus::ClientMetric::Histogram histogram);

  // The last call.
  prometheus::MetricFamily Take() { return std::move(family_); }

 private:
  Family(prometheus::MetricType type, std::string name, std::string help);
  prometheus::ClientMetric& New(const Labels& labels);

  prometheus::MetricFamily family_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_METRICS_FAMILY_H_
