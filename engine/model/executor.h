// Runs a model's forward and backward pass on one device: its arena, and the
// views into it. Belongs to that device's thread.
#ifndef RECURVE_ENGINE_MODEL_EXECUTOR_H_
#define RECURVE_ENGINE_MODEL_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/mode.h"
#include "engine/model/model.h"
#include "engine/model/places.h"
#include "engine/model/sequence_batch.h"
#include "kernels/backend.h"
#include "kernels/precision.h"

namespace recurve {

// Keys of this call's random numbers (DESIGN invariant 3).
struct RandomContext {
  uint64_t seed = 0;
  uint64_t step = 0;           // optimizer step the batch belongs to
  uint32_t accumulation = 0;   // which batch of that step
  int64_t first_sequence = 0;  // index in the call of the batch's sequence 0
  absl::Span<const int64_t>
      positions;  // [B] stream position of each first row; empty = 0
};

// Masks given instead of drawn, per layer, host memory: for comparing with
// recorded runs of the libraries (kTraining only). Those that training would
// draw must be there, the others empty.
struct LayerMasks {
  std::vector<float> cell;     // SRU m_c [B, C]
  std::vector<float> input;    // SRU m_in [B, I]
  std::vector<float> zoneout;  // QRNN [N, C]
  std::vector<float> dropout;  // QRNN between layers [N, C]
};

struct ForwardArgs {
  const SequenceBatch* batch = nullptr;  // checked by Model::CheckBatch
  // Host [B, carry_size] at inference, else [B, state_size]; empty = zeros.
  absl::Span<const float> state;
  Mode mode = Mode::kInference;
  // Is called, if given, before the layers with the state in device memory,
  // where it may put other rows in the place of those of `state`.
  std::function<absl::Status(Matrix<float> state)> place_state;
  // The ends of the pass are the caller's: it reads the output, or gives
  // Backward gradients of output and state, or asks for those of state and
  // features. In training, whose loss is ours, there is no memory for any of
  // that. At inference the output always is there.
  bool open_ends = false;
  RandomContext random;
  const std::vector<LayerMasks>* masks = nullptr;  // one a layer
};

// Device memory, valid until the executor's next Forward.
struct ForwardResult {
  // [R, O]; logits of the linear output if there is one; absent if there is one
  // and ForwardArgs say nothing of reading it.
  Matrix<float> output;
  Matrix<float> hidden;  // [N, C] rows of the last layer
  Matrix<float> state;   // after the batch; of ForwardArgs::state's size
};

struct LossResult {
  double loss = 0;    // sum over rows of weight * loss, in row order
  double weight = 0;  // sum of the weights of rows that count
};

struct BackwardArgs {
  // These three need ForwardArgs::open_ends.
  absl::Span<const float>
      dstate;  // host [B, state_size], on the state after; empty = zeros
  // Wanted, host; null = not wanted.
  std::vector<float>* dfeatures = nullptr;  // [N, I]
  std::vector<float>* dstate_in = nullptr;  // [B, state_size]
  float* gradients =
      nullptr;  // device, parameters().buffer_size(), overwritten
};

// Whether parameters change while an executor has them.
enum class ParameterUse {
  kTrained,
  kFixed,  // inference may read copies that were made once
};

class Executor {
 public:
  // `parameters` is device memory of model->parameters().buffer_size() floats
  // that outlives the executor; it is read at each Forward and Backward, but
  // scale_x, which is never trained, here alone. With kFixed their projections
  // are packed here, in PackedBytes of device memory, if the device packs, and
  // multiplied at `precision`. At another than float32, InvalidArgument for a
  // projection of more terms than the device can add at it, and
  // FailedPrecondition if it packs none. REQUIRES: float32 unless kFixed.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      std::shared_ptr<const Model> model, Backend& backend,
      const float* parameters, ParameterUse use = ParameterUse::kTrained,
      Precision precision = Precision::kFloat32);
  ~Executor();

  // Bytes of a model's packed projections, given those of each.
  static int64_t PackedBytes(
      const Model& model,
      absl::FunctionRef<int64_t(const ProjectionShape&)> bytes_of);

  // Bytes of the arena for a batch of this shape, without open_ends: a closed
  // formula, what Forward, Loss and Backward really use. `packed`: the
  // executor has packed projections.
  static int64_t ArenaBytes(const Model& model, Mode mode, int64_t num_rows,
                            int64_t num_sequences, bool packed = false);

  // Makes the arena that large at once; what the last Forward left in it is
  // lost if it was not.
  absl::Status ReserveArena(int64_t bytes);
  // The arena grows to the largest batch seen; it is one allocation. Afterwards
  // nothing is allocated on the device.
  absl::StatusOr<ForwardResult> Forward(const ForwardArgs& args);
  // Of the last Forward; sizes of `targets` are checked, values are not
  // (Model::CheckTargets).
  absl::StatusOr<LossResult> Loss(const Targets& targets);
  // The same with its gradients: the derivatives of the loss sum, not divided
  // by anything. Of the last Forward, once. Large outputs are taken in tiles of
  // rows, from the linear layer to its gradients (OutputTileRows).
  absl::StatusOr<LossResult> LossAndBackward(const Targets& targets,
                                             const BackwardArgs& args);
  // Gradients from the one on the output, device [R, O], which may be
  // overwritten. Of the last Forward, with open_ends, once.
  absl::Status Backward(Matrix<float> doutput, const BackwardArgs& args);

  // Of the last Forward, in training: which sequences have a loss or a state
  // after that is not finite, ascending, and where that begins.
  absl::StatusOr<std::vector<NotFiniteSequence>> FindNotFinite(
      const Targets& targets);

  const Model& model() const;

 private:
  class Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_EXECUTOR_H_
