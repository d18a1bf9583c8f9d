// The trainers that clients drive step by step. All are on disk; those in use
// are in memory too. One that is idle, or makes room for another, is saved and
// leaves memory; the next call on it takes it back, after a restart as well.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_STORE_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_STORE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/serve/model_version.h"
#include "engine/train/stored_trainer.h"

namespace recurve {

// What a new trainer starts from. request_id and create_time are the store's to
// fill in.
struct TrainerStart {
  TrainerOrigin origin;
  std::vector<float> parameters;  // origin.model->parameters() layout
};

// Thread-safe. Nothing is saved on destruction: SaveAll first.
class TrainerStore {
 public:
  struct Options {
    std::string directory;  // DATA_DIR/trainers; created if need be
    int max_loaded = 16;    // in memory at once
    int max_stored = 1000;  // on disk
    absl::Duration idle_timeout = absl::Hours(1);
    // While a job waits for memory.
    absl::Duration idle_timeout_when_wanted = absl::Seconds(30);
    TrainerContext context;
  };

  // A trainer that cannot be read does not hinder the others: asking for it is
  // DataLoss, and its files stay. What a crash left half done is removed.
  static absl::StatusOr<std::unique_ptr<TrainerStore>> Open(Options options);

  // The id is taken while `make` runs; the trainer is there, and on disk, when
  // this returns. With the request_id of an existing trainer, that one is
  // returned. AlreadyExists for an id in use, Aborted for one being made (which
  // a retry will find), ResourceExhausted beyond a limit.
  using Make = std::function<absl::StatusOr<TrainerStart>()>;
  absl::StatusOr<TrainerInfo> Create(const std::string& id,
                                     const std::string& request_id,
                                     const Make& make);
  absl::StatusOr<TrainerInfo> Get(absl::string_view id) const;
  // By id, at most `limit`, those after the id `after`. Those that cannot be
  // read are left out.
  std::vector<TrainerInfo> List(absl::string_view after, int limit) const;
  // With its files and named checkpoints. Aborted during a call.
  absl::Status Delete(absl::string_view id);

  // --- Calls: one at a time on a trainer, Aborted during another one. They
  // take it into memory first: ResourceExhausted if there is no room because
  // all others are at work, DataLoss if no checkpoint reads. ---

  // As StoredTrainer::Step. A trainer that a device has lost leaves memory; the
  // next call goes on from where it was last saved.
  absl::StatusOr<StepResult> Step(absl::string_view id,
                                  const NumberedStep& step);
  // On disk when it returns; under a name, if checkpoint_id is not empty.
  absl::StatusOr<NamedTrainerSummary> Save(absl::string_view id,
                                           const std::string& checkpoint_id);
  // Goes on from a named checkpoint of this or another trainer.
  absl::StatusOr<TrainerInfo> GoOnFrom(absl::string_view id,
                                       absl::string_view source_id,
                                       absl::string_view checkpoint_id,
                                       bool weights_only);
  absl::StatusOr<std::vector<NamedTrainerSummary>> ListCheckpoints(
      absl::string_view id) const;

  // --- Readers of the weights as the last call left them ---

  // At once: null where Weights would have to wait or to fetch them.
  absl::StatusOr<ModelHandle> ReadyWeights(absl::string_view id) const;
  // Waits for a call that is running if nobody asked for the weights since the
  // one before it; else at once.
  absl::StatusOr<ModelHandle> Weights(absl::string_view id,
                                      absl::Time deadline);

  // --- Upkeep ---

  // Saves what is due and takes idle trainers out of memory, those at work
  // excepted: sooner where somebody waits in line for a device's memory. To be
  // called every now and then.
  void DoUpkeep();
  // Everything unsaved, to disk; waits for calls that run.
  void SaveAll();

 private:
  struct Slot {
    std::string request_id;
    absl::StatusOr<std::shared_ptr<StoredTrainer>> trainer;  // null: being made
  };

  explicit TrainerStore(Options options) : options_(std::move(options)) {}
  absl::Status OpenAll();
  std::string PathOf(absl::string_view id) const;
  absl::StatusOr<std::shared_ptr<StoredTrainer>> Find(
      absl::string_view id) const;
  std::vector<std::shared_ptr<StoredTrainer>> Loaded() const;
  // The one idle longest first.
  std::vector<std::shared_ptr<StoredTrainer>> LoadedByLastUse() const;
  absl::StatusOr<std::shared_ptr<StoredTrainer>> TakeId(
      const std::string& id, const std::string& request_id);
  absl::StatusOr<std::shared_ptr<StoredTrainer>> CreateStored(
      const std::string& id, const std::string& request_id, const Make& make);
  absl::Status RemoveFiles(absl::string_view id);

  absl::StatusOr<TrainerTurn> BeginCall(absl::string_view id);
  absl::Status MakeLoaded(StoredTrainer& trainer);
  absl::Status TakeRoom();
  void ReturnRoom();
  absl::Status SaveAndUnload(StoredTrainer& trainer);
  absl::Duration IdleTimeout() const;
  void Discard(StoredTrainer& trainer);

  const Options options_;
  mutable absl::Mutex mutex_;  // before that of a trainer
  std::map<std::string, Slot, std::less<>> slots_ ABSL_GUARDED_BY(mutex_);
  int loaded_ ABSL_GUARDED_BY(mutex_) = 0;  // or being loaded
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_STORE_H_
