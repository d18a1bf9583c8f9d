// Arguments of the layer operations of a Backend: plain structs, one an
// operation, in the memory of that backend. S is the storage type of
// activations and matrix-product inputs; states, biases, masks and gradients of
// parameters are float.
//
// Buffers marked "saved" are written by the forward pass and read by the
// backward pass; marked "scratch" they carry nothing between calls. At
// inference the saved buffers that only backward reads may be absent.
#ifndef RECURVE_KERNELS_CELL_ARGS_H_
#define RECURVE_KERNELS_CELL_ARGS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve {

inline constexpr float kLayerNormEpsilon = 1e-5f;

enum class SruSkip {
  kNone,       // y = g * m_c * r
  kInput,      // k = 3: skip = skip_scale * raw layer input (I == C)
  kTransform,  // k = 4: skip = gate group 3 of the projection
};

enum class NormPlace { kNone, kBefore, kAfter };

// Sizes of a projection [depth, D*K*H]; column (d * K + m) * H + j is gate
// group m of unit j in direction d.
struct ProjectionShape {
  int64_t depth = 0;
  int64_t gate_groups = 0;     // K
  int64_t hidden_size = 0;     // H
  int64_t num_directions = 1;  // D
};

// A projection's weights once more, in the order and precision in which a
// device multiplies by them (Backend::Pack); null data if absent.
// Inference that is given them does not read the weights themselves.
struct PackedProjection {
  Precision precision = Precision::kFloat32;
  const std::byte* data = nullptr;

  constexpr explicit operator bool() const { return data != nullptr; }
};

// Sizes and switches of one SRU layer (SEMANTICS: SRU 2.6, one layer).
struct SruShape {
  int64_t input_size = 0;       // I
  int64_t hidden_size = 0;      // H, per direction
  int64_t num_directions = 1;   // D; channels [H, 2H) run against time
  int64_t projection_size = 0;  // P, 0 = no low-rank projection
  SruSkip skip = SruSkip::kInput;
  bool use_tanh = false;
  NormPlace layer_norm = NormPlace::kNone;
  float skip_scale = 1.0f;  // scale_x where rescale is on, else 1
  // Custom transforms that also give per-step coefficients: the projection has
  // two more gate groups, v_f and v_r, added to the constant v.
  bool has_step_coefficients = false;

  constexpr int64_t channels() const { return num_directions * hidden_size; }
  // K: candidate, forget, reset, then skip transform, then v_f and v_r.
  constexpr int64_t gate_groups() const {
    return 3 + (skip == SruSkip::kTransform) + 2 * has_step_coefficients;
  }
  constexpr int64_t projected_cols() const {
    return gate_groups() * channels();
  }
  constexpr ProjectionShape projection() const {
    return {projection_size > 0 ? projection_size : input_size, gate_groups(),
            hidden_size, num_directions};
  }
};

// Weights of one SRU layer. A column of the projection for direction d, gate
// group m and unit j is (d * K + m) * H + j: gates in blocks, directions
// outermost (the libraries interleave gates per unit; import re-lays them).
template <typename S, typename F>
struct SruWeights {
  Matrix<S> projection_in;       // [I, P], absent without low-rank projection
  Matrix<S> projection;          // [P or I, D*K*H]
  PackedProjection packed;       // the same; optional
  F* projection_bias = nullptr;  // [D*K*H] or absent (custom linear transforms)
  F* v = nullptr;                // [2, C]: v_f then v_r
  F* bias = nullptr;             // [2, C]: b_f then b_r
  F* norm_weight = nullptr;      // [I] before or [C] after; absent without norm
  F* norm_bias = nullptr;
};

template <typename S>
struct SruForwardArgs {
  SruShape shape;
  SequenceLayout layout;
  SruWeights<const S, const float> weights;
  Matrix<const S> x;            // [N, I]
  Matrix<const float> mask_in;  // [B, I] variational, already scaled; optional
  Matrix<const float>
      mask_cell;                // [B, C] variational, already scaled; optional
  Matrix<const float> c_first;  // [B, C]; absent = zeros

  Matrix<S> y;           // [N, C]
  Matrix<float> c_last;  // [B, C]; may alias c_first; optional

  Matrix<S> projection_input;  // saved [N, I]; only with pre-norm or mask_in
  Matrix<S> low_rank;          // saved [N, P]; only with projection_size
  // saved [N, D*K*H]; scratch at inference, absent with packed weights
  Matrix<S> u;
  Matrix<float> c;       // saved [N, C]; absent at inference
  Matrix<S> norm_input;  // saved [N, C]; y before post-norm; only kAfter
  Matrix<float> norm_statistics;  // saved [N, 2] mean, 1/stddev; only with norm
};

template <typename S>
struct SruBackwardArgs {
  SruForwardArgs<S> forward;  // as given to SruForward, with every saved buffer
  Matrix<const S> dy;         // [N, C]
  Matrix<const float> dc_last;  // [B, C]; absent = zeros

  Matrix<S> dx;                        // [N, I]; absent = not wanted
  Matrix<float> dc_first;              // [B, C]; absent = not wanted
  SruWeights<float, float> gradients;  // overwritten; v absent when v is frozen

  // forward.u is overwritten by its own gradient dU.
  Matrix<S> dprojection_input;     // scratch [N, I]
  Matrix<S> dlow_rank;             // scratch [N, P]; only with projection_size
  Matrix<S> dnorm_input;           // scratch [N, C]; only kAfter
  Matrix<float> channel_partials;  // scratch [B, 4*C]: dv_f, dv_r, db_f, db_r
};

// Sizes and switches of one QRNN layer (SEMANTICS: QRNN, layer). Bidirectional
// layers run H channels each way; the second direction's previous row is the
// row that follows in time.
struct QrnnShape {
  int64_t input_size = 0;      // I
  int64_t hidden_size = 0;     // H, per direction
  int64_t num_directions = 1;  // D
  int64_t window = 1;          // 1 or 2
  bool output_gate = true;
  float zoneout =
      0.0f;  // without a mask the update gate is scaled by 1 - zoneout

  constexpr int64_t channels() const { return num_directions * hidden_size; }
  constexpr int64_t gate_groups() const {
    return output_gate ? 3 : 2;
  }  // z, i, o
  constexpr int64_t projected_cols() const {
    return gate_groups() * channels();
  }
  constexpr ProjectionShape projection() const {
    return {window * input_size, gate_groups(), hidden_size, num_directions};
  }
};

template <typename S, typename F>
struct QrnnWeights {
  // [window*I, D*G*H], columns (d*G + m)*H + j; rows [0, I) multiply x_t, rows
  // [I, 2I) the previous row.
  Matrix<S> projection;
  PackedProjection packed;  // the same; optional
  F* bias = nullptr;        // [D*G*H]
};

template <typename S>
struct QrnnForwardArgs {
  QrnnShape shape;
  SequenceLayout layout;
  QrnnWeights<const S, const float> weights;
  Matrix<const S> x;                 // [N, I]
  Matrix<const float> zoneout_mask;  // [N, C] of 0 or 1, multiplies i; optional
  Matrix<const float> c_first;       // [B, C]; absent = zeros
  Matrix<const float>
      x_previous;  // [B, I]; absent = zeros; window 2, D = 1 only

  Matrix<S> y;           // [N, C]
  Matrix<float> c_last;  // [B, C]; may alias c_first; optional
  Matrix<float> x_last;  // [B, I]; may alias x_previous; window 2 only;
                         // optional. A zero-length sequence keeps x_previous.

  Matrix<S> window_rows;  // saved [N, D*2*I] (x_t, previous) per direction;
                          // window 2 only
  // saved [N, D*G*H]; scratch at inference, absent with packed weights
  Matrix<S> u;
  Matrix<float> c;  // saved [N, C]; absent at inference
};

template <typename S>
struct QrnnBackwardArgs {
  QrnnForwardArgs<S> forward;
  Matrix<const S> dy;           // [N, C]
  Matrix<const float> dc_last;  // [B, C]; absent = zeros

  Matrix<S> dx;                         // [N, I]; absent = not wanted
  Matrix<float> dc_first;               // [B, C]; absent = not wanted
  QrnnWeights<float, float> gradients;  // overwritten

  // forward.u is overwritten by its own gradient. No gradient reaches
  // x_previous (it is detached, as in the library).
  Matrix<S> dwindow_rows;          // scratch [N, D*2*I]; window 2 only
  Matrix<float> channel_partials;  // scratch [B, G*C]: bias gradients
};

// y = x W^T + b, torch.nn.Linear's layout.
template <typename S>
struct LinearForwardArgs {
  Matrix<const S> x;            // [N, I]
  Matrix<const S> weight;       // [O, I]
  const float* bias = nullptr;  // [O]; optional
  Matrix<S> y;                  // [N, O]
};

template <typename S>
struct LinearBackwardArgs {
  Matrix<const S> x;       // [N, I]
  Matrix<const S> weight;  // [O, I]
  Matrix<const S> dy;      // [N, O]
  Matrix<S> dx;            // [N, I]; absent = not wanted
  Matrix<float> dweight;   // [O, I]; overwritten
  float* dbias = nullptr;  // [O]; overwritten; optional
  // dweight and dbias hold the sums over rows before these and go on with these
  // (Destination::kContinue).
  bool continues = false;
};

template <typename S>
struct EmbeddingForwardArgs {
  const int32_t* tokens = nullptr;  // [N], each in [0, V)
  Matrix<const S> table;            // [V, E]
  Matrix<S> y;                      // [N, E]
};

template <typename S>
struct EmbeddingBackwardArgs {
  const int32_t* tokens = nullptr;  // [N]
  Matrix<const S> dy;               // [N, E]
  Matrix<float> dtable;             // [V, E]
  bool accumulate = false;  // tied tables: add to dtable instead of overwriting
};

enum class PoolKind { kLast, kMean, kMax };

// What pooling keeps of a sequence that comes in parts, from part to part:
// zeros before the first. Changed in place by forward.
struct PoolCarry {
  Matrix<int64_t> rows;  // [B, 1]: how many so far
  Matrix<double> sums;   // [B, C]; kMean only
  Matrix<float> maxima;  // [B, C]; kMax only

  constexpr explicit operator bool() const { return static_cast<bool>(rows); }
};

// One row a sequence. A sequence that had no rows gives zeros.
template <typename S>
struct PoolArgs {
  PoolKind kind = PoolKind::kLast;
  SequenceLayout layout;
  // kMean and kMax, forward alone and without argmax: y is of all rows so far,
  // to the bit what they give in one part. Absent = the sequences are whole.
  PoolCarry carry;
  Matrix<const S> x;       // forward [N, C]
  Matrix<S> y;             // forward [B, C]
  Matrix<int32_t> argmax;  // saved [B, C], row in the batch; kMax only
  Matrix<const S> dy;      // backward [B, C]
  Matrix<S> dx;            // backward [N, C], overwritten
};

// Rows of one matrix into another's: to[to_rows[i]] = from[from_rows[i]] for i
// in [0, count), bit for bit, whatever the words stand for. No row is written
// twice, nor both read and written.
struct CopyRowsArgs {
  Matrix<const float> from;            // [S, C]
  const int32_t* from_rows = nullptr;  // [count], each in [0, S)
  Matrix<float> to;                    // [B, C]
  const int32_t* to_rows = nullptr;    // [count], each in [0, B)
  int64_t count = 0;
};

// Sum over rows of weight * -log softmax(logits)[target]; rows whose target
// equals ignore_index count nothing.
template <typename S>
struct CrossEntropyArgs {
  Matrix<S> logits;  // [R, V]; overwritten by the gradient if want_gradient
  const int32_t* targets = nullptr;  // [R]
  const float* weights = nullptr;    // [R]; absent = all 1
  int32_t ignore_index = -1;
  bool want_gradient = false;
  float* row_losses = nullptr;  // [R] out, weight applied
};

// Sum over rows of weight * mean over columns of (prediction - target)^2.
template <typename S>
struct SquaredErrorArgs {
  Matrix<S>
      predictions;  // [R, O]; overwritten by the gradient if want_gradient
  Matrix<const float> targets;     // [R, O]
  const float* weights = nullptr;  // [R]; absent = all 1
  bool want_gradient = false;
  float* row_losses = nullptr;  // [R] out, weight applied
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_CELL_ARGS_H_
