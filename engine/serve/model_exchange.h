// The registry as training sees it.
#ifndef RECURVE_ENGINE_SERVE_MODEL_EXCHANGE_H_
#define RECURVE_ENGINE_SERVE_MODEL_EXCHANGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serve/registry.h"
#include "engine/train/training_run.h"

namespace recurve {

class RegistryExchange : public ModelExchange {
 public:
  // `registry` outlives the exchange.
  explicit RegistryExchange(Registry& registry) : registry_(registry) {}

  absl::StatusOr<TrainableModel> Load(absl::string_view name) override;
  absl::StatusOr<std::string> Publish(absl::string_view model_name,
                                      const TrainableModel& model,
                                      absl::string_view source,
                                      absl::string_view request_id) override;

 private:
  Registry& registry_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_MODEL_EXCHANGE_H_
