// A registry in memory, for tests.
#ifndef RECURVE_ENGINE_TRAIN_FAKE_MODEL_EXCHANGE_H_
#define RECURVE_ENGINE_TRAIN_FAKE_MODEL_EXCHANGE_H_

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/train/training_run.h"

namespace recurve {

class FakeModelExchange : public ModelExchange {
 public:
  absl::StatusOr<TrainableModel> Load(absl::string_view name) override {
    absl::MutexLock lock(&mutex_);
    const auto at = models_.find(std::string(name));
    if (at == models_.end()) return absl::NotFoundError(name);
    return at->second;
  }

  absl::StatusOr<std::string> Publish(absl::string_view model_name,
                                      const TrainableModel& model,
                                      absl::string_view source,
                                      absl::string_view request_id) override {
    absl::MutexLock lock(&mutex_);
    if (!publish_error_.ok()) return publish_error_;
    std::string& made = by_request_[std::string(request_id)];
    if (!made.empty() && !request_id.empty()) return made;
    const std::string version =
        absl::StrCat(model_name, "/versions/", sources_.size() + 1);
    models_[version] = models_[std::string(model_name)] = model;
    sources_[version] = std::string(source);
    return made = version;
  }

  void Put(const std::string& name, const TrainableModel& model) {
    absl::MutexLock lock(&mutex_);
    models_[name] = model;
  }
  void FailToPublish(absl::Status error) {
    absl::MutexLock lock(&mutex_);
    publish_error_ = error;
  }
  // Of each version published.
  std::map<std::string, std::string> sources() const {
    absl::MutexLock lock(&mutex_);
    return sources_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, TrainableModel> models_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> sources_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> by_request_ ABSL_GUARDED_BY(mutex_);
  absl::Status publish_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_FAKE_MODEL_EXCHANGE_H_
