// The trainers that clients drive step by step.
#ifndef RECURVE_SERVER_TRAINER_STORE_H_
#define RECURVE_SERVER_TRAINER_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/train/trainer.h"

namespace recurve::server {

// One trainer with what the service knows about it.
struct TrainerEntry {
  std::string id;
  std::string request_id;
  absl::Time create_time;
  std::string model_name;  // models/ID: where its versions go
  std::shared_ptr<const Model> model;
  std::vector<std::string> vocabulary;
  std::optional<LibraryNames> names;  // of the version it started from

  // Calls are made one at a time: whoever cannot lock this is refused.
  absl::Mutex busy;
  std::unique_ptr<Trainer> trainer;  // used under `busy`; const parts freely
  std::atomic<int64_t> step = 0;     // optimizer steps done
};

// Thread-safe. Trainers live in memory: they end with the server.
class TrainerStore {
 public:
  // Fills in all but id and request_id.
  using Make = std::function<absl::Status(TrainerEntry&)>;

  explicit TrainerStore(int max_trainers) : max_trainers_(max_trainers) {}

  // The id is taken while `make` runs, the trainer there when it has succeeded.
  // With the request_id of an existing trainer, that one is returned.
  // AlreadyExists for an id in use, Aborted for one being made (which a retry
  // will find), ResourceExhausted beyond the limit.
  absl::StatusOr<std::shared_ptr<TrainerEntry>> Create(
      const std::string& id, const std::string& request_id, const Make& make);
  absl::StatusOr<std::shared_ptr<TrainerEntry>> Get(absl::string_view id) const;
  // By id, at most `limit`, those after the id `after`.
  std::vector<std::shared_ptr<TrainerEntry>> List(absl::string_view after,
                                                  int limit) const;
  // A call that runs on it is finished first, by whoever made it.
  absl::Status Delete(absl::string_view id);

 private:
  // A trainer that is being made.
  struct Slot {
    std::string request_id;
    std::shared_ptr<TrainerEntry> entry;  // null while it is made
  };

  const int max_trainers_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Slot, std::less<>> slots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_TRAINER_STORE_H_
