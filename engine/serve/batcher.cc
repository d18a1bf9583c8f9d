#include "engine/serve/batcher.h"

#include <algorithm>
#include <utility>

namespace recurve {

Batcher::Batcher(BatchRunner& runner, const Options& options)
    : runner_(runner), options_(options) {}

Batcher::~Batcher() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](int64_t* pending) { return *pending == 0; }, &pending_));
}

// For now by runs of their own, not batched.
void Batcher::Enqueue(BatcherRequest request) {
  if (!request.states.empty() && request.version->model->bidirectional()) {
    return request.done(absl::FailedPreconditionError(
        "a bidirectional model has no state to go on from"));
  }
  {
    absl::MutexLock lock(&mutex_);
    ++pending_;
  }
  BatchRun run;
  run.version = request.version;
  run.batch = request.batch;
  for (const auto& state : request.states) {
    const float* const row =
        state->row(request.replay ? state->other() : state->committed());
    run.state.insert(run.state.end(), row,
                     row + request.version->model->state_size());
  }
  run.want_output = request.want_output;
  run.want_hidden = request.want_hidden;
  run.want_state = !request.states.empty();
  run.consume = request.consume;
  run.control = request.control;
  run.done = [this, states = request.states, replay = request.replay,
              size = request.version->model->state_size(),
              done = request.done](absl::StatusOr<std::vector<float>> after) {
    if (after.ok() && !replay) {
      const float* from = after->data();
      for (const auto& state : states) {
        std::copy(from, from + size, state->BeginWrite());
        state->Commit();
        from += size;
      }
    }
    done(after.status());
    absl::MutexLock lock(&mutex_);
    --pending_;
  };
  runner_.Start(std::move(run));
}

}  // namespace recurve
