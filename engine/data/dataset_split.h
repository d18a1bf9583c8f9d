// Setting the end of a dataset aside.
#ifndef RECURVE_ENGINE_DATA_DATASET_SPLIT_H_
#define RECURVE_ENGINE_DATA_DATASET_SPLIT_H_

#include <cstdint>

#include "engine/data/sequence_dataset.h"

namespace recurve {

// Tokens of a text, sequences of all others.
int64_t DatasetSize(const Dataset& dataset);

// Cuts the last `count` tokens or sequences off and returns them, in the same
// order; count <= DatasetSize.
Dataset CutEnd(int64_t count, Dataset* dataset);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_DATASET_SPLIT_H_
