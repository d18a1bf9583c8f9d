#include "server/metrics/exporter.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace recurve::server {
namespace {

class Collected : public prometheus::Collectable {
 public:
  explicit Collected(std::function<Families()> collect)
      : collect_(std::move(collect)) {}

  Families Collect() const override { return collect_(); }

 private:
  const std::function<Families()> collect_;
};

}  // namespace

class Exporter::Impl {
 public:
  // Throws where it cannot listen.
  Impl(const std::string& listen, std::function<Families()> collect)
      : collected_(std::make_shared<Collected>(std::move(collect))),
        exposer_(listen, /*num_threads=*/2) {
    exposer_.RegisterCollectable(collected_);
  }

  int port() const { return exposer_.GetListeningPorts().at(0); }

 private:
  const std::shared_ptr<Collected> collected_;
  prometheus::Exposer exposer_;
};

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Start(
    const std::string& listen, std::function<Families()> collect) {
  auto exporter = std::unique_ptr<Exporter>(new Exporter());
  try {
    exporter->impl_ = std::make_unique<Impl>(listen, std::move(collect));
    exporter->address_ = absl::StrCat(listen.substr(0, listen.rfind(':')), ":",
                                      exporter->impl_->port());
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(
        "--metrics_listen: cannot listen on ", listen, ": ", error.what()));
  }
  return exporter;
}

Exporter::Exporter() = default;
Exporter::~Exporter() = default;

}  // namespace recurve::server
