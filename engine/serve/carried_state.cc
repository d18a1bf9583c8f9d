#include "engine/serve/carried_state.h"

#include <utility>

#include "engine/serve/state_pool.h"

namespace recurve {

CarriedState::CarriedState(int64_t carry_size, Kind kind)
    : carry_size_(carry_size), kind_(kind) {}

CarriedState::~CarriedState() {
  if (place_.block != nullptr) place_.block->Free(place_.slot);
}

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
  absl::StatusOr<Values> values;
  Place place;
  {
    absl::MutexLock lock(&mutex_);
    place = place_;
    if (!lost_.ok()) {
      values = lost_;
    } else if (place.block == nullptr) {
      values = rows_[committed_];
    }
  }
  if (place.block == nullptr) return done(std::move(values));
  // By then it may be elsewhere.
  place.block->OnDevice([state = shared_from_this(), block = place.block,
                         done = std::move(done)](Backend& backend) {
    const Place now = state->place();
    if (now.block != block) return state->Read(done);
    done(block->ReadRow(now.slot, state->committed(), backend));
  });
}

bool CarriedState::can_replay() const {
  absl::MutexLock lock(&mutex_);
  return has_previous_;
}

std::optional<int> CarriedState::device() const {
  absl::MutexLock lock(&mutex_);
  if (place_.block == nullptr) return std::nullopt;
  return place_.block->device();
}

void CarriedState::LeaveDevice() {
  const auto block = place().block;
  if (block == nullptr) return;
  block->OnDevice([state = shared_from_this(), block](Backend& backend) {
    const Place now = state->place();  // it may have left meanwhile
    if (now.block == block) block->SpillOne(*state, now.slot, backend);
  });
}

int CarriedState::committed() const {
  absl::MutexLock lock(&mutex_);
  return committed_;
}

void CarriedState::BeginWrite() {
  absl::MutexLock lock(&mutex_);
  has_previous_ = false;
}

void CarriedState::Commit() {
  absl::MutexLock lock(&mutex_);
  committed_ = 1 - committed_;
  has_previous_ = true;
}

float* CarriedState::row(int index) {
  absl::MutexLock lock(&mutex_);
  return rows_[index].data();
}

CarriedState::Place CarriedState::place() const {
  absl::MutexLock lock(&mutex_);
  return place_;
}

void CarriedState::MoveTo(Place place) {
  absl::MutexLock lock(&mutex_);
  place_ = std::move(place);
  for (Values& row : rows_) Values().swap(row);
}

void CarriedState::MoveToHost(Values rows[2], const absl::Status& lost) {
  absl::MutexLock lock(&mutex_);
  for (int i : {0, 1}) rows_[i] = std::move(rows[i]);
  place_ = {};
  lost_.Update(lost);
}

absl::Status CarriedState::lost() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

}  // namespace recurve
