#include "server/metrics/family.h"

namespace recurve::server {

Family::Family(prometheus::MetricType type, std::string name,
               std::string help) {
  family_.type = type;
  family_.name = std::move(name);
  family_.help = std::move(help);
}

prometheus::ClientMetric& Family::New(const Labels& labels) {
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  for (const auto& [name, value] : labels)
    metric.label.push_back({name, value});
  return metric;
}

void Family::Add(const Labels& labels, double value) {
  prometheus::ClientMetric& metric = New(labels);
  if (family_.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

void Family::Add(const Labels& labels,
                 prometheus::ClientMetric::Histogram histogram) {
  New(labels).histogram = std::move(histogram);
}

}  // namespace recurve::server
