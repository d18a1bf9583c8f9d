// Sizes of a model that its data decide.
#ifndef RECURVE_ENGINE_DATA_DATA_SIZES_H_
#define RECURVE_ENGINE_DATA_DATA_SIZES_H_

#include <cstdint>

#include "engine/data/sequence_dataset.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve {

// Fills in what is 0:
//   token_embedding.vocabulary_size  text: `text_ids`, the number of token ids
//                                    of its tokenization; else the largest
//                                    token + 1
//   features.size                    the width of the data's rows
//   linear.size                      next-token targets, tied: the embedding's
//                                    vocabulary_size; classes: the largest + 1;
//                                    values: their number
void FillDataSizes(const Dataset& dataset, int64_t text_ids,
                   v1::ModelConfig* config);

// Whether FillDataSizes would have anything to fill in.
bool LeavesSizesToData(const v1::ModelConfig& config);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_DATA_SIZES_H_
