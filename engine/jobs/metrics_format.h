// A job's numbers as other programs read them: docs/checkpoints.md has the
// columns and tags.
#ifndef RECURVE_ENGINE_JOBS_METRICS_FORMAT_H_
#define RECURVE_ENGINE_JOBS_METRICS_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "engine/jobs/job.h"

namespace recurve {

// What is added to each file.
struct MetricsText {
  std::string csv;
  std::string tensorboard;
};

// Turns the events of one job, in order, into the files' contents: a pure
// function of them.
class MetricsFormat {
 public:
  // The files' beginnings are appended.
  MetricsFormat(absl::Time create_time, MetricsText* text);
  // What the event adds is appended; nothing, where it has no numbers.
  void Add(const JobEvent& event, MetricsText* text);

 private:
  void NoteStep(const JobEvent& event, int64_t step, int64_t* last,
                MetricsText* text);

  int64_t metrics_step_ = 0;
  int64_t evaluation_step_ = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_METRICS_FORMAT_H_
