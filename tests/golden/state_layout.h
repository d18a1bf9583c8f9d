// The libraries' stacked states beside our [B, state_size].
#ifndef RECURVE_TESTS_GOLDEN_STATE_LAYOUT_H_
#define RECURVE_TESTS_GOLDEN_STATE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"

namespace recurve::golden {

// How a state tensor of the libraries is stacked: [layers, B, C], or as
// torch.nn's, [layers * directions, B, H].
enum class Stacking { kLayers, kDirections };

// `model` outlives this; its layers have the same number of channels.
class StateLayout {
 public:
  StateLayout(const Model& model, int64_t batch_size)
      : model_(model), batch_size_(batch_size) {}

  std::vector<int64_t> Shape(Stacking stacking) const;
  // A state tensor, from our state.
  std::vector<float> FromState(const std::vector<float>& state,
                               Stacking stacking) const;
  // Our state with zeros for previous input rows, from a state tensor.
  std::vector<float> ToState(const std::vector<float>& tensor,
                             Stacking stacking) const;
  // The previous input rows [B, I] of a layer that has them.
  std::vector<float> PreviousInput(const std::vector<float>& state,
                                   const Layer& layer) const;

 private:
  int64_t directions(Stacking stacking) const;
  template <typename F>
  void ForEach(Stacking stacking, const F& f) const;

  const Model& model_;
  const int64_t batch_size_;
};

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_STATE_LAYOUT_H_
