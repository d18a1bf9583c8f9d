// A model as a plan: the layers that a ModelConfig describes with all sizes
// derived, the layout of its parameters and of its recurrent state. Immutable
// and safe to share between threads; it holds no weights and touches no device.
#ifndef RECURVE_ENGINE_MODEL_MODEL_H_
#define RECURVE_ENGINE_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/parameters.h"
#include "engine/model/sequence_batch.h"
#include "kernels/cell_args.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve {

struct SruLayer {
  SruShape
      shape;  // skip_scale is filled in from scale_x when weights are loaded
  float dropout = 0;      // of m_c; 0 in the block's last layer
  float rnn_dropout = 0;  // of m_in
  bool rescale = false;
  bool frozen_v = false;  // v1
};

struct QrnnLayer {
  QrnnShape shape;
  float dropout =
      0;  // plain, on this layer's output; 0 in the block's last layer
  bool save_prev_x = false;
};

// One layer of the whole stack.
struct Layer {
  int64_t block = 0;  // index in ModelConfig.blocks
  int64_t index = 0;  // within the block
  std::variant<SruLayer, QrnnLayer> cell;
  // Columns of the state: c, then the last input row of window-2 QRNN layers.
  int64_t c_offset = 0;
  int64_t x_previous_offset = -1;  // -1: none

  int64_t input_size() const;
  int64_t channels() const;
  ProjectionShape projection() const;
};

class Model {
 public:
  // InvalidArgument names the field, its value and what is allowed.
  static absl::StatusOr<std::shared_ptr<const Model>> Create(
      const v1::ModelConfig& config);

  const v1::ModelConfig& config() const { return config_; }
  const ParameterLayout& parameters() const { return parameters_; }
  const std::vector<Layer>& layers() const { return layers_; }

  bool takes_tokens() const;
  int64_t vocabulary_size() const;  // 0 for feature models
  int64_t feature_size() const;     // 0 for token models
  int64_t hidden_channels() const;  // C of the last layer
  int64_t output_size() const;   // columns of the output: linear.size, else C
  bool pools() const;            // outputs are [B, O], else [N, O]
  PoolKind pool_kind() const;    // of models that pool
  int32_t ignore_index() const;  // targets of this class count nothing
  bool bidirectional() const;    // any layer is: no streaming state
  // Floats of recurrent state a sequence; counted for bidirectional models too,
  // whose state the service does not show.
  int64_t state_size() const { return state_size_; }

  // Whether a sequence may come in parts, each of which goes on from the carry
  // that the one before left: all models but bidirectional ones. Outputs and
  // carry are to the bit what they are in one part, on the CPU.
  bool CutsInTime() const { return !bidirectional(); }
  // 4-byte words of a carry: the state, then, for the mean and the maximum over
  // time of models that are cut, a PoolCarry. All zeros before the first row.
  int64_t carry_size() const { return carry_size_; }
  // Where the PoolCarry begins, an even number, -1 if there is none: the number
  // of rows in two words, then the sums, or the maxima. An even carry_size
  // keeps them aligned in all rows of a [B, carry_size] matrix.
  int64_t pool_carry_offset() const { return pool_carry_offset_; }

  // Sets to zero what a new call does not take over from `states` [B,
  // state_size] or [B, carry_size]: the previous input rows of layers without
  // save_prev_x, and what is pooled.
  void BeginCall(absl::Span<float> states, int64_t num_sequences) const;
  // [B, carry_size] of calls that go on from `states` [B, state_size], and
  // back.
  std::vector<float> CarriesOf(std::vector<float> states) const;
  std::vector<float> StatesOf(std::vector<float> carries) const;

  // InvalidArgument says which token, row or sequence is wrong: wrong kind of
  // input, ids out of range, NaN or Inf features, offsets that descend or do
  // not cover the rows, zero-length sequences unless allowed, empty batches.
  absl::Status CheckBatch(const SequenceBatch& batch,
                          bool allow_empty_sequences) const;
  // InvalidArgument for targets that do not fit `batch` and the loss.
  absl::Status CheckTargets(const SequenceBatch& batch,
                            const Targets& targets) const;

 private:
  Model() = default;
  void LayOutCarry();

  v1::ModelConfig config_;
  ParameterLayout parameters_;
  std::vector<Layer> layers_;
  int64_t state_size_ = 0;
  int64_t carry_size_ = 0;
  int64_t pool_carry_offset_ = -1;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_MODEL_H_
