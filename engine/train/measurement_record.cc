#include "engine/train/measurement_record.h"

namespace recurve {

records::Evaluation ToRecord(const JobEvaluation& evaluation) {
  records::Evaluation record;
  record.set_step(evaluation.step);
  record.set_loss(evaluation.loss);
  record.set_accuracy(evaluation.accuracy);
  record.set_weight(evaluation.weight);
  return record;
}

records::DeviceTime ToRecord(const DeviceTime& time) {
  records::DeviceTime record;
  record.set_device(time.device);
  record.set_micro_batches(time.micro_batches);
  record.set_rows(time.rows);
  record.set_compute_ms(time.compute_ms);
  record.set_exchange_ms(time.exchange_ms);
  record.set_update_ms(time.update_ms);
  return record;
}

JobEvaluation FromRecord(const records::Evaluation& record) {
  return {record.step(), record.loss(), record.accuracy(), record.weight()};
}

DeviceTime FromRecord(const records::DeviceTime& record) {
  return {record.device(),     record.micro_batches(), record.rows(),
          record.compute_ms(), record.exchange_ms(),   record.update_ms()};
}

}  // namespace recurve
