#include "engine/serve/carried_state.h"

#include <utility>

namespace recurve {

CarriedState::CarriedState(int64_t carry_size, Kind kind)
    : carry_size_(carry_size), kind_(kind) {}

std::shared_ptr<CarriedState> CarriedState::Create(int64_t carry_size,
                                                   Kind kind) {
  return Create(Values(carry_size), kind);
}

std::shared_ptr<CarriedState> CarriedState::Create(Values values, Kind kind) {
  const auto size = static_cast<int64_t>(values.size());
  std::shared_ptr<CarriedState> state(new CarriedState(size, kind));
  absl::MutexLock lock(&state->mutex_);
  state->rows_[0] = std::move(values);
  state->rows_[1].resize(size);
  return state;
}

void CarriedState::Read(
    std::function<void(absl::StatusOr<Values>)> done) const {
  Values values;
  {
    absl::MutexLock lock(&mutex_);
    values = rows_[committed_];
  }
  done(std::move(values));
}

bool CarriedState::can_replay() const {
  absl::MutexLock lock(&mutex_);
  return has_previous_;
}

std::optional<int> CarriedState::device() const { return std::nullopt; }

int CarriedState::committed() const {
  absl::MutexLock lock(&mutex_);
  return committed_;
}

const float* CarriedState::row(int index) const {
  absl::MutexLock lock(&mutex_);
  return rows_[index].data();
}

float* CarriedState::BeginWrite() {
  absl::MutexLock lock(&mutex_);
  has_previous_ = false;
  return rows_[1 - committed_].data();
}

void CarriedState::Commit() {
  absl::MutexLock lock(&mutex_);
  committed_ = 1 - committed_;
  has_previous_ = true;
}

}  // namespace recurve
