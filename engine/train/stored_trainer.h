// A trainer that outlives the process: always on disk as it was last saved, and
// in memory, on the devices, while it is used.
//
// One caller at a time has its turn, in one of two ways: a *call* of a client,
// while which other calls are refused, or *upkeep* (a save, a read of the
// weights), which ends by itself and for which calls wait.
#ifndef RECURVE_ENGINE_TRAIN_STORED_TRAINER_H_
#define RECURVE_ENGINE_TRAIN_STORED_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/schedule/device.h"
#include "engine/serve/model_version.h"
#include "engine/train/numbered_calls.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_folder.h"
#include "engine/train/trainer_record.h"

namespace recurve {

// A call of Step as a client makes it.
struct NumberedStep {
  StepCall call;
  int64_t number = 0;          // 0 = not numbered
  std::string request_sha256;  // with a number: of the whole request
};

struct TrainerInfo {
  std::string id;
  std::shared_ptr<const TrainerOrigin> origin;
  int64_t step = 0;               // optimizer steps done
  int32_t accumulated_calls = 0;  // since the last of them
  int64_t last_number = 0;        // of the last numbered call
  int64_t saved_step = 0;         // both as they are on disk
  int64_t saved_number = 0;
  bool loaded = false;
};

// What trainers do things with. All of it outlives them.
struct TrainerContext {
  DevicePool* devices = nullptr;
  std::function<absl::Time()> now = [] { return absl::Now(); };
  // A trainer with unsaved calls is saved once its last save is so long ago.
  absl::Duration save_interval = absl::Minutes(1);
  // What nobody waits for went wrong.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  // These weights will not be asked for again.
  std::function<void(const ModelVersion&)> drop_weights =
      [](const ModelVersion&) {};
};

class StoredTrainer {
 public:
  // On disk, in memory, and nobody's turn.
  static absl::StatusOr<std::shared_ptr<StoredTrainer>> Create(
      const TrainerContext& context, const std::string& id,
      const std::string& path, TrainerOrigin origin,
      std::vector<float> parameters);
  // As it was last saved, on disk alone.
  static absl::StatusOr<std::shared_ptr<StoredTrainer>> Open(
      const TrainerContext& context, const std::string& id,
      const std::string& path);

  // --- From any thread, at any time ---
  const std::string& id() const { return id_; }
  TrainerInfo Describe() const;
  absl::Time last_use() const;  // by a client
  // The weights as the last call left them; null if they must be fetched first,
  // which takes a turn.
  ModelHandle ReadyWeights();
  const TrainerFolder& folder() const { return folder_; }  // to read

  // --- Taking a turn; EndTurn is called after each success ---
  // Aborted during another call, NotFound after Close.
  absl::Status BeginCall();
  // False unless nobody has it.
  bool TryBeginUpkeep();
  // Null once this caller has its turn; the weights, without a turn, should
  // they be there before. DeadlineExceeded.
  absl::StatusOr<ModelHandle> BeginUpkeep(absl::Time deadline);
  // The same, whatever weights there are. False after Close.
  bool BeginUpkeep();
  void EndTurn();

  // --- With a turn ---
  bool loaded() const { return trainer_ != nullptr; }
  // From the newest checkpoint that can be read, settings and all: what
  // Describe said before may have come from one that turns out to be damaged.
  absl::Status Load();
  // Out of memory, whether it was saved or not.
  void Unload();
  // No turn is given any more, and nobody waits for one.
  void Close();

  // REQUIRES for all below: loaded().
  // Numbered calls as NumberedCalls::Find has it; otherwise as Trainer::Step,
  // with the save that is due afterwards. Its failure is the call's only with
  // its origin's save_every_calls: then the call is done, but not on disk, and
  // made again with its number it tries that again.
  absl::StatusOr<StepResult> Step(const NumberedStep& step);
  // Whether a device failed in such a way that nothing but its last checkpoint
  // is left of it.
  bool lost();
  // Nothing to do if nothing changed since the last one.
  absl::Status Save();
  absl::Status SaveIfDue();
  absl::StatusOr<TrainerSummary> SaveNamed(absl::string_view checkpoint_id);
  // Goes on from `saved`, of an equal model (else InvalidArgument); on disk
  // when this returns. Numbers of calls go on as they were.
  absl::Status GoOnFrom(SavedTrainer saved, bool weights_only);
  absl::StatusOr<ModelHandle> FetchWeights();

 private:
  enum class Turn { kNone, kCall, kUpkeep };

  StoredTrainer(const TrainerContext& context, const std::string& id,
                TrainerRecord record, TrainerFolder folder);
  absl::StatusOr<Checkpoint> Capture();
  absl::Status SaveNow();
  void ReplaceOrigin(TrainerOrigin origin);
  void NoteSaved();
  void NoteChange(bool weights_changed);
  void ReplaceWeights(ModelHandle weights);

  const TrainerContext& context_;
  const std::string id_;
  std::shared_ptr<const TrainerOrigin> origin_;  // with a turn

  // Whoever has its turn uses these.
  TrainerFolder folder_;
  std::unique_ptr<Trainer> trainer_;  // null: on disk alone
  NumberedCalls calls_;
  int64_t unsaved_calls_ = 0;
  absl::Time save_time_;  // of the last save, or of the last that failed

  mutable absl::Mutex mutex_;
  Turn turn_ ABSL_GUARDED_BY(mutex_) = Turn::kNone;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  TrainerInfo info_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_use_ ABSL_GUARDED_BY(mutex_);
  int32_t saved_accumulated_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  ModelHandle weights_ ABSL_GUARDED_BY(mutex_);  // of now, or null
  // Someone asked for weights since they last changed: the next ones are
  // fetched by the call that changes them, so that steady readers never wait
  // for calls.
  bool weights_wanted_ ABSL_GUARDED_BY(mutex_) = false;
};

// EndTurn at the end of a scope.
class TrainerTurn {
 public:
  explicit TrainerTurn(std::shared_ptr<StoredTrainer> trainer)
      : trainer_(std::move(trainer)) {}
  TrainerTurn(TrainerTurn&&) = default;
  TrainerTurn& operator=(TrainerTurn&&) = delete;
  ~TrainerTurn() {
    if (trainer_ != nullptr) trainer_->EndTurn();
  }
  StoredTrainer& operator*() const { return *trainer_; }
  StoredTrainer* operator->() const { return trainer_.get(); }

 private:
  std::shared_ptr<StoredTrainer> trainer_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_STORED_TRAINER_H_
