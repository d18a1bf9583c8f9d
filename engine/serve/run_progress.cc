#include "engine/serve/run_progress.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace recurve {

RunProgress::RunProgress(BatchRun given, RunPlan made, int parts,
                         std::vector<int> spare_ranks)
    : run(std::move(given)),
      plan(std::move(made)),
      waiting_(parts),
      spare_ranks_(std::move(spare_ranks)) {
  const bool carries =
      std::any_of(plan.chains.begin(), plan.chains.end(),
                  [](const Chain& chain) { return chain.size() > 1; });
  const Model& model = *run.version->model;
  carries_ = model.CarriesOf(std::move(run.state));
  if (carries_.empty() && (carries || run.want_state)) {
    carries_.resize(run.batch.num_sequences() * model.carry_size());
  }
}

absl::Span<float> RunProgress::CarriesOf(const Chunk& chunk) {
  if (carries_.empty()) return {};
  const int64_t size = run.version->model->carry_size();
  return absl::MakeSpan(carries_).subspan(chunk.first_sequence * size,
                                          chunk.num_sequences * size);
}

std::vector<float> RunProgress::TakeStates() {
  return run.version->model->StatesOf(std::move(carries_));
}

absl::Status RunProgress::status() {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Status RunProgress::Check() {
  RETURN_IF_ERROR(status());
  return run.control.Check();
}

bool RunProgress::HasWork() {
  absl::MutexLock lock(&mutex_);
  return HasWorkLocked();
}

bool RunProgress::Begin(Place& place) {
  absl::MutexLock lock(&mutex_);
  --waiting_;
  if (!HasWorkLocked()) return false;
  ++active_;
  place = {next_chain_++, 0};
  return true;
}

bool RunProgress::Advance(Place& place, const absl::Status& status,
                          bool* last) {
  absl::MutexLock lock(&mutex_);
  status_.Update(status);
  if (status_.ok() && ++place.chunk < plan.chains[place.chain].size()) {
    return true;
  }
  if (HasWorkLocked()) {
    place = {next_chain_++, 0};
    return true;
  }
  *last = --active_ == 0;
  return false;
}

std::optional<int> RunProgress::TakeSpareRank() {
  absl::MutexLock lock(&mutex_);
  if (spare_ranks_.empty()) return std::nullopt;
  const int rank = spare_ranks_.front();
  spare_ranks_.erase(spare_ranks_.begin());
  return rank;
}

bool RunProgress::GiveUp(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  --waiting_;
  if (!HasWorkLocked() || active_ > 0 || waiting_ > 0) return false;
  status_.Update(status);
  return true;
}

}  // namespace recurve
