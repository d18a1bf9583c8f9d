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
  // Columns of the state matrix [B, state_size]: c, then the last input row of
  // window-2 QRNN layers.
  int64_t c_offset = 0;
  int64_t x_previous_offset = -1;  // -1: none

  int64_t input_size() const;
  int64_t channels() const;
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
  int32_t ignore_index() const;  // targets of this class count nothing
  bool bidirectional() const;    // any layer is: no streaming state
  // Floats of recurrent state a sequence; counted for bidirectional models too,
  // whose state the service does not show.
  int64_t state_size() const { return state_size_; }

  // Sets to zero what a new call does not take over from `state` [B,
  // state_size]: the previous input rows of layers without save_prev_x.
  void BeginCall(absl::Span<float> state) const;

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

  v1::ModelConfig config_;
  ParameterLayout parameters_;
  std::vector<Layer> layers_;
  int64_t state_size_ = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_MODEL_H_
