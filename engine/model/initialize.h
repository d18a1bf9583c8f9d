// Fresh parameters, distributed as the libraries initialise them
// (SEMANTICS 2.6, 6.3; torch defaults for nn.Embedding and nn.Linear), drawn
// from Philox by seed: the same on every machine.
#ifndef RECURVE_ENGINE_MODEL_INITIALIZE_H_
#define RECURVE_ENGINE_MODEL_INITIALIZE_H_

#include <cstdint>
#include <vector>

#include "engine/model/model.h"

namespace recurve {

// A buffer of model.parameters().buffer_size() floats.
std::vector<float> InitializeParameters(const Model& model, uint64_t seed);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_INITIALIZE_H_
