// A model's operations in order, forwards and backwards, on activations that
// are laid out.
#ifndef RECURVE_ENGINE_MODEL_PASSES_H_
#define RECURVE_ENGINE_MODEL_PASSES_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/model/activations.h"
#include "engine/model/model.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace recurve {

// What both passes work on. References outlive the pass.
struct PassContext {
  const Model& model;
  const ModelParameters& parameters;
  const float* weights;  // device, the model's parameters
  // The projections of the layers, packed; empty where they are not.
  absl::Span<const PackedProjection> packed;
  Activations& activations;
  Backend& backend;
};

// Views of the weights into the arguments of the cells: once for a layout of
// the activations, before the passes.
void BindWeights(const PassContext& context);

// From batch, state and masks, which are there already, to state and output, or
// to its features where it is taken in tiles (output.h).
// Like RunBackward it only issues operations of the backend, which its
// arguments determine.
absl::Status RunForward(const PassContext& context);

class LossPass;

struct GradientArgs {
  // One of the two: the gradient on the output [R, O], which may be
  // overwritten, or the loss, uploaded, whose gradient that is.
  Matrix<float> doutput;
  const LossPass* loss = nullptr;
  float* gradients = nullptr;  // device; parameters nobody writes are zero
  bool has_dstate = false;     // dstate_out is there
  bool want_dstate_in = false;
  bool want_dfeatures = false;
};

// After RunForward on activations that are kept. The loss has its result then.
absl::Status RunBackward(const PassContext& context, const GradientArgs& args);

// Where RunBackward leaves the gradient of the given features [N, I], if it is
// wanted.
Matrix<float> FeatureGradient(const Activations& activations);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_PASSES_H_
