#include "engine/data/loader.h"

#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/status.h"

namespace recurve {

class Loader::Impl {
 public:
  explicit Impl(std::unique_ptr<BatchMaker> maker)
      : maker_(std::move(maker)),
        batches_per_epoch_(maker_->batches_per_epoch()),
        thread_([this] { MakeAhead(); }) {}

  ~Impl() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  Batch Next() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Impl::Filled));
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    next_ = After(next_);
    return batch;
  }

  LoaderCursor cursor() const {
    absl::MutexLock lock(&mutex_);
    return next_;
  }

  absl::Status Seek(LoaderCursor cursor) {
    if (cursor.epoch < 0 || cursor.batch < 0 ||
        cursor.batch >= batches_per_epoch_) {
      return absl::OutOfRangeError(
          absl::StrCat("epoch ", cursor.epoch, ", batch ", cursor.batch,
                       ": an epoch has ", batches_per_epoch_, " batches"));
    }
    absl::MutexLock lock(&mutex_);
    ready_.clear();
    next_ = next_made_ = cursor;
    ++seeks_;
    return absl::OkStatus();
  }

  int64_t batches_per_epoch() const { return batches_per_epoch_; }

 private:
  LoaderCursor After(LoaderCursor cursor) const {
    if (++cursor.batch == batches_per_epoch_) return {cursor.epoch + 1, 0};
    return cursor;
  }
  bool Filled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !ready_.empty();
  }
  bool WantsMore() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || ready_.size() < kPrefetch;
  }

  void MakeAhead() {
    absl::MutexLock lock(&mutex_);
    while (true) {
      mutex_.Await(absl::Condition(this, &Impl::WantsMore));
      if (stopping_) return;
      const LoaderCursor at = next_made_;
      const int64_t seeks = seeks_;
      mutex_.Unlock();
      Batch batch = maker_->Make(at.epoch, at.batch);
      mutex_.Lock();
      if (seeks != seeks_) continue;  // made for nothing
      ready_.push_back(std::move(batch));
      next_made_ = After(at);
    }
  }

  const std::unique_ptr<BatchMaker> maker_;  // the thread's alone
  const int64_t batches_per_epoch_;
  mutable absl::Mutex mutex_;
  std::deque<Batch> ready_ ABSL_GUARDED_BY(mutex_);  // from next_ on
  LoaderCursor next_ ABSL_GUARDED_BY(mutex_);
  LoaderCursor next_made_ ABSL_GUARDED_BY(mutex_);
  int64_t seeks_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all the others
};

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(
    std::shared_ptr<const Dataset> dataset, const v1::LoaderConfig& config,
    uint64_t seed) {
  ASSIGN_OR_RETURN(auto maker,
                   BatchMaker::Create(std::move(dataset), config, seed));
  return absl::WrapUnique(new Loader(std::make_unique<Impl>(std::move(maker))));
}

Loader::Loader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Loader::~Loader() = default;
Batch Loader::Next() { return impl_->Next(); }
LoaderCursor Loader::cursor() const { return impl_->cursor(); }
absl::Status Loader::Seek(LoaderCursor cursor) { return impl_->Seek(cursor); }
int64_t Loader::batches_per_epoch() const { return impl_->batches_per_epoch(); }

}  // namespace recurve
