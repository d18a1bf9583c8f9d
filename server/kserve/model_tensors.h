// What goes into a model and what comes out, as the protocol's tensors. Shapes
// are those of one sequence, without the batch's size before them; -1 is a size
// that requests choose.
//
//   tokens    INT32 or INT64  [T]      token models
//   features  FP32, or FP16, BF16 [T, I]  feature models
//   lengths   INT32 or INT64  [1]      rows of each sequence that count; may be
//                                      left out
//
// Outputs of a model that has one a step are [T, ...], with 0 in rows beyond
// the length; of one that pools, without T.
#ifndef RECURVE_SERVER_KSERVE_MODEL_TENSORS_H_
#define RECURVE_SERVER_KSERVE_MODEL_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/tensor_data.h"

namespace recurve::server::kserve {

struct ModelTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  bool optional = false;
};

std::vector<ModelTensor> InputsOf(const Model& model);

// Which numbers an output has.
enum class OutputKind {
  kLogits,            // [O]
  kProbabilities,     // [O]; not of models trained for squared error
  kClasses,           // the likeliest class; the same
  kTopClasses,        // [K], by parameter `top_k`, descending; the same
  kTopProbabilities,  // [K]
  kHidden,            // [C] a step: rows of the last block, before pooling
};

struct ModelOutput {
  ModelTensor tensor;
  OutputKind kind = OutputKind::kLogits;
  // Returned to requests that name no outputs; the others are there by name.
  bool by_default = true;
};

// `top_k` is a request's parameter, 0 if it has none.
std::vector<ModelOutput> OutputsOf(const Model& model, int64_t top_k);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_MODEL_TENSORS_H_
