// What a pass is for.
#ifndef RECURVE_ENGINE_MODEL_MODE_H_
#define RECURVE_ENGINE_MODEL_MODE_H_

namespace recurve {

enum class Mode {
  kInference,  // no dropout, nothing kept for backward
  kGradients,  // no dropout, backward may follow
  kTraining,   // dropout and zoneout drawn, backward may follow
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_MODE_H_
