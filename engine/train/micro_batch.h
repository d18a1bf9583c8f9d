// A part of a call's batch: some of its sequences and their targets.
#ifndef RECURVE_ENGINE_TRAIN_MICRO_BATCH_H_
#define RECURVE_ENGINE_TRAIN_MICRO_BATCH_H_

#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/partition.h"
#include "engine/train/call_work.h"

namespace recurve {

struct MicroBatch {
  SequenceBatch batch;
  Targets targets;
};

// Copies `sequences` of the batch into `part`, whose memory is used again.
// REQUIRES: both have passed the model's checks.
void CutMicroBatch(const Model& model, const SequenceBatch& batch,
                   const Targets& targets, Range sequences, MicroBatch& part);

// What a call asks of the executor for `sequences`, cut out as `part`.
ForwardArgs TrainingForward(const Model& model, const CallWork& work,
                            Range sequences, const MicroBatch& part);

// Sum of the weights of the rows that count: what the loss is divided by.
// REQUIRES: the targets have passed the model's check.
double TotalWeight(const Model& model, const SequenceBatch& batch,
                   const Targets& targets);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_MICRO_BATCH_H_
