// Everything that a batch needs on a device besides parameters: the closed
// formula of invariant 2, as views into one arena.
#ifndef RECURVE_ENGINE_MODEL_ACTIVATIONS_H_
#define RECURVE_ENGINE_MODEL_ACTIVATIONS_H_

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "engine/model/mode.h"
#include "engine/model/model.h"
#include "kernels/cell_args.h"
#include "kernels/tensor.h"

namespace recurve {

// The arguments of a layer's operations, ready but for weights, gradients, the
// row gradients dy and dx, and the state gradients. Masks are there where
// training draws them; the same memory, to be filled, stands beside.
struct SruActivations {
  SruBackwardArgs<float> args;
  Matrix<float> mask_in;
  Matrix<float> mask_cell;
};
struct QrnnActivations {
  QrnnBackwardArgs<float> args;
  Matrix<float> zoneout_mask;
  Matrix<float> dropout_mask;  // [N, C], multiplies y
};

struct LayerActivations {
  Matrix<float> block_input;  // [N, I] before the block's input_to_hidden, if
                              // it has one and this is its first layer
  Matrix<float> x;            // [N, I]
  Matrix<float> y;            // [N, C]
  // Row gradients; absent at inference, and where nobody reads them.
  Matrix<float> dx;            // [N, I]
  Matrix<float> dblock_input;  // [N, I]
  std::variant<SruActivations, QrnnActivations> cell;
};

struct Activations {
  int64_t bytes = 0;
  int64_t num_rows = 0;       // N
  int64_t num_sequences = 0;  // B
  int64_t output_rows = 0;    // R

  int64_t* cu_seqlens = nullptr;  // [B + 1]
  int64_t* positions = nullptr;   // [B]; training
  int32_t* tokens = nullptr;      // [N]; token models
  Matrix<float> state_in;         // [B, state_size]; carry_size at inference
  Matrix<float> state_out;        // the same memory at inference

  Matrix<float> input;       // [N, I] embedded or given rows
  Matrix<float> input_mask;  // [N, I]; training with input dropout
  std::vector<LayerActivations> layers;

  Matrix<float> pooled;       // [B, C]; models that pool
  PoolArgs<float> pool;       // of both passes, but for x, y, dy and dx
  Matrix<float> output_mask;  // [R, C]; training with output dropout
  Matrix<float> output;       // [R, O]; pooled or last rows without linear;
                              // absent if only its tiles are ever there

  // The loss; models that have one. But for row_losses of a pass with a
  // backward one, in the place of what the forward pass at inference, or the
  // backward pass, needs for the time of a layer.
  int32_t* target_classes = nullptr;  // [R]
  Matrix<float> target_values;        // [R, O]
  float* target_weights = nullptr;    // [R]
  float* row_losses = nullptr;        // [R]
  Matrix<float> output_tile;          // [OutputTileRows, O]; without output

  // Row gradients; absent at inference, and where there is no such part.
  Matrix<float> dlinear_input;  // [R, C] of features()
  Matrix<float> dhidden;        // [N, C] of hidden(), by pooling
  // With PassMemory::open_ends.
  Matrix<float> dstate_in;   // [B, state_size]
  Matrix<float> dstate_out;  // [B, state_size]

  SequenceLayout layout() const {
    return {num_sequences, num_rows, cu_seqlens};
  }
  // The rows that pooling or the linear output reads.
  Matrix<float> hidden() const { return layers.back().y; }
  // The rows that the linear output reads.
  Matrix<float> features() const { return pooled ? pooled : hidden(); }
};

// What a pass needs memory for.
struct PassMemory {
  Mode mode = Mode::kInference;
  int64_t num_rows = 0;       // N
  int64_t num_sequences = 0;  // B
  // The output is wanted, or backward is given a gradient of it or of the
  // state, or asked for one of the state or of the features. At inference the
  // output always is, and nothing else.
  bool open_ends = false;
  // The device has its projections packed: inference keeps no product of them.
  bool packed = false;
};

// Rows of the output that are in memory at once where the loss alone reads
// them. From kTiledOutputSize columns on these are kOutputTileRows: so many
// that reading and packing the weights for each tile costs no time that shows,
// and no more, since a row of a large vocabulary outweighs a row of everything
// else. The order of sums over rows follows from it (docs/determinism.md).
inline constexpr int64_t kTiledOutputSize = 1024;
inline constexpr int64_t kOutputTileRows = 512;
constexpr int64_t OutputTileRows(int64_t rows, int64_t cols) {
  return cols < kTiledOutputSize ? rows : std::min(rows, kOutputTileRows);
}

// The activations of such a pass, from `base` on. With a null base the views
// are not memory, but `bytes` is the same. `reused` are the layers of
// activations that are over: the new ones take their place on the heap.
Activations LayOut(const Model& model, const PassMemory& pass, void* base,
                   std::vector<LayerActivations> reused = {});

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_ACTIVATIONS_H_
