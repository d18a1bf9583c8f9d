// The loss of the rows that a forward pass left on the device.
#ifndef RECURVE_ENGINE_MODEL_LOSS_H_
#define RECURVE_ENGINE_MODEL_LOSS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/activations.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve {

// References outlive the pass: Upload, then OfRows for all rows of the output,
// then Result.
class LossPass {
 public:
  // `targets` has been checked by Model::CheckTargets but for its sizes.
  LossPass(const Model& model, const Targets& targets, const Activations& a,
           Backend& backend)
      : model_(model), targets_(targets), a_(a), backend_(backend) {}

  // Errors: InvalidArgument if the model has no loss or sizes do not fit.
  absl::Status Upload() const;

  // The losses of rows [first, first + rows.rows) of the output and, if it is
  // wanted, their gradient in the place of `rows`. Only issues operations of
  // the backend.
  absl::Status OfRows(int64_t first, Matrix<float> rows,
                      bool want_gradient) const;

  // Waits for the device.
  absl::StatusOr<LossResult> Result() const;

  bool has_weights() const { return !targets_.weights.empty(); }

 private:
  bool is_cross_entropy() const;
  double Weight(int64_t row) const;
  absl::Status CheckSizes() const;
  absl::StatusOr<double> SumOfRows() const;

  const Model& model_;
  const Targets& targets_;
  const Activations& a_;
  Backend& backend_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_LOSS_H_
