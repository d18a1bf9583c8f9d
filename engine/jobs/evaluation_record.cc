#include "engine/jobs/evaluation_record.h"

namespace recurve {

records::Evaluation ToRecord(const JobEvaluation& evaluation) {
  records::Evaluation record;
  record.set_step(evaluation.step);
  record.set_loss(evaluation.loss);
  record.set_accuracy(evaluation.accuracy);
  record.set_weight(evaluation.weight);
  return record;
}

JobEvaluation FromRecord(const records::Evaluation& record) {
  return {record.step(), record.loss(), record.accuracy(), record.weight()};
}

}  // namespace recurve
