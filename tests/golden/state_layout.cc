#include "tests/golden/state_layout.h"

#include <variant>

namespace recurve::golden {

// Blocks of a layer's state in a tensor: the directions, if they are apart.
int64_t StateLayout::directions(Stacking stacking) const {
  if (stacking == Stacking::kLayers) return 1;
  return std::visit([](const auto& cell) { return cell.shape.num_directions; },
                    model_.layers()[0].cell);
}

// Calls f(index in the tensor, index in our state) for every number.
template <typename F>
void StateLayout::ForEach(Stacking stacking, const F& f) const {
  const int64_t d_count = directions(stacking);
  const int64_t channels = model_.hidden_channels();
  const int64_t h = channels / d_count;
  int64_t block = 0;
  for (const Layer& layer : model_.layers()) {
    for (int64_t d = 0; d < d_count; ++d, ++block) {
      for (int64_t b = 0; b < batch_size_; ++b) {
        for (int64_t j = 0; j < h; ++j) {
          f((block * batch_size_ + b) * h + j,
            b * model_.state_size() + layer.c_offset + d * h + j);
        }
      }
    }
  }
}

std::vector<int64_t> StateLayout::Shape(Stacking stacking) const {
  const int64_t layers = static_cast<int64_t>(model_.layers().size());
  const int64_t d = directions(stacking);
  return {layers * d, batch_size_, model_.hidden_channels() / d};
}

std::vector<float> StateLayout::FromState(const std::vector<float>& state,
                                          Stacking stacking) const {
  std::vector<float> tensor(model_.layers().size() * batch_size_ *
                            model_.hidden_channels());
  ForEach(stacking, [&](int64_t t, int64_t s) { tensor[t] = state[s]; });
  return tensor;
}

std::vector<float> StateLayout::ToState(const std::vector<float>& tensor,
                                        Stacking stacking) const {
  std::vector<float> state(batch_size_ * model_.state_size(), 0.0f);
  ForEach(stacking, [&](int64_t t, int64_t s) { state[s] = tensor[t]; });
  return state;
}

std::vector<float> StateLayout::PreviousInput(const std::vector<float>& state,
                                              const Layer& layer) const {
  std::vector<float> rows;
  for (int64_t b = 0; b < batch_size_; ++b) {
    const auto first =
        state.begin() + b * model_.state_size() + layer.x_previous_offset;
    rows.insert(rows.end(), first, first + layer.input_size());
  }
  return rows;
}

}  // namespace recurve::golden
