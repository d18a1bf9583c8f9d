#include "engine/train/device_time_record.h"

namespace recurve {

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

DeviceTime FromRecord(const records::DeviceTime& record) {
  return {record.device(),     record.micro_batches(), record.rows(),
          record.compute_ms(), record.exchange_ms(),   record.update_ms()};
}

}  // namespace recurve
