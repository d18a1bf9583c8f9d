// Device times as records on disk keep them, exactly.
#ifndef RECURVE_ENGINE_TRAIN_DEVICE_TIME_RECORD_H_
#define RECURVE_ENGINE_TRAIN_DEVICE_TIME_RECORD_H_

#include "engine/train/device_time_record.pb.h"
#include "engine/train/step_result.h"

namespace recurve {

records::DeviceTime ToRecord(const DeviceTime& time);
DeviceTime FromRecord(const records::DeviceTime& record);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DEVICE_TIME_RECORD_H_
