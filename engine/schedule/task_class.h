// The two kinds of work that share a device.
#ifndef RECURVE_ENGINE_SCHEDULE_TASK_CLASS_H_
#define RECURVE_ENGINE_SCHEDULE_TASK_CLASS_H_

namespace recurve {

enum class TaskClass { kServing, kTraining };

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_TASK_CLASS_H_
