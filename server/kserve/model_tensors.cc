#include "server/kserve/model_tensors.h"

#include <utility>

namespace recurve::server::kserve {
namespace {

constexpr int64_t kAnySize = -1;

bool HasClasses(const Model& model) {
  return model.config().loss().kind() != v1::Loss::MEAN_SQUARED_ERROR;
}

}  // namespace

std::vector<ModelTensor> InputsOf(const Model& model) {
  ModelTensor rows;
  if (model.takes_tokens()) {
    rows = {"tokens", DType::kI32, {kAnySize}};
  } else {
    rows = {"features", DType::kF32, {kAnySize, model.feature_size()}};
  }
  return {std::move(rows), {"lengths", DType::kI32, {1}, /*optional=*/true}};
}

std::vector<ModelOutput> OutputsOf(const Model& model, int64_t top_k) {
  using Kind = OutputKind;
  std::vector<ModelOutput> outputs;
  const auto add = [&](const char* name, Kind kind, DType dtype,
                       std::vector<int64_t> shape, bool by_default) {
    if (!model.pools() || kind == Kind::kHidden) {
      shape.insert(shape.begin(), kAnySize);
    } else if (shape.empty()) {
      shape.push_back(1);
    }
    outputs.push_back({{name, dtype, std::move(shape)}, kind, by_default});
  };
  const int64_t columns = model.output_size();
  add("logits", Kind::kLogits, DType::kF32, {columns}, true);
  if (HasClasses(model)) {
    const bool wanted = top_k > 0;
    const int64_t k = wanted ? top_k : kAnySize;
    add("probabilities", Kind::kProbabilities, DType::kF32, {columns}, true);
    add("classes", Kind::kClasses, DType::kI32, {}, true);
    add("top_classes", Kind::kTopClasses, DType::kI32, {k}, wanted);
    add("top_probabilities", Kind::kTopProbabilities, DType::kF32, {k}, wanted);
  }
  add("hidden", Kind::kHidden, DType::kF32, {model.hidden_channels()}, false);
  return outputs;
}

}  // namespace recurve::server::kserve
