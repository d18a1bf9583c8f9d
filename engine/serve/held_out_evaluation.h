// How jobs judge their models.
#ifndef RECURVE_ENGINE_SERVE_HELD_OUT_EVALUATION_H_
#define RECURVE_ENGINE_SERVE_HELD_OUT_EVALUATION_H_

#include "engine/data/dataset.h"
#include "engine/jobs/held_out.h"
#include "engine/model/model.h"
#include "engine/serve/batch_runner.h"
#include "engine/serve/evaluator.h"

namespace recurve {

// How `data` is read: text in chunks, with the state carried where there is
// one.
TextOptions HeldOutOptions(const Model& model, const Dataset& data);

// By forward passes of `runner`, which outlives it.
HeldOut EvaluateHeldOut(BatchRunner& runner);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_HELD_OUT_EVALUATION_H_
