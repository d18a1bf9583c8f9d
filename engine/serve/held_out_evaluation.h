// How jobs judge their models.
#ifndef RECURVE_ENGINE_SERVE_HELD_OUT_EVALUATION_H_
#define RECURVE_ENGINE_SERVE_HELD_OUT_EVALUATION_H_

#include "engine/jobs/held_out.h"
#include "engine/serve/batch_runner.h"

namespace recurve {

// By forward passes of `runner`, which outlives it.
HeldOut EvaluateHeldOut(BatchRunner& runner);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_HELD_OUT_EVALUATION_H_
