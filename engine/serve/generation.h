// A language model goes on from a prompt, token by token, as often as wanted.
//
// The prompt is one request of the batcher, which cuts it as it sees fit; its
// samples then go on from the state after it, each step of them all one request
// of as many rows. So steps of different generations, and whatever else asks
// for the version, share passes; what is drawn depends on none of that.
#ifndef RECURVE_ENGINE_SERVE_GENERATION_H_
#define RECURVE_ENGINE_SERVE_GENERATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/batcher.h"
#include "engine/serve/call_control.h"
#include "engine/serve/carried_state.h"
#include "engine/serve/generated_sample.h"
#include "engine/serve/model_version.h"
#include "engine/serve/session_store.h"

namespace recurve {

struct GenerationRequest {
  ModelHandle version;          // a language model
  std::vector<int32_t> prompt;  // tokens, at least one
  int64_t num_samples = 1;
  SampleOptions sample;
  bool echo = false;  // each sample begins with the prompt
  // Goes on from this session, on `version`, and when the only sample has
  // finished commits the state after the prompt and all that was drawn.
  SessionStore::Lease session;
  CallControl control;
  int priority = 1;
  std::string flow;
};

struct GenerationLimits {
  int64_t max_rows = 1 << 20;  // of prompt and max_tokens together
  int64_t max_samples = 64;
  int64_t max_top_log_probabilities = 100;
  size_t max_stops = 16;
  size_t max_stop_bytes = 1024;  // of each
};

// What is wrong with a request: InvalidArgument and ResourceExhausted name the
// field, the value and the limit, FailedPrecondition what the model lacks.
absl::Status CheckGeneration(const GenerationRequest& request,
                             const GenerationLimits& limits);

// Thread-safe.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Runs what draws from many logits, which takes longer than a device should
  // wait.
  using Executor = std::function<void(std::function<void()>)>;
  enum class Step {
    kPiece,  // one was there
    kWait,   // `wake` will be called, once
    kEnd,    // there are no more
  };

  // `request` is one that was checked. `wake` is called from any thread.
  // `batcher` outlives the generation.
  static std::shared_ptr<Generation> Start(Batcher& batcher, Executor executor,
                                           GenerationRequest request,
                                           std::function<void()> wake);

  // The next piece, in the order in which they were drawn. The first error ends
  // a generation. While nobody asks, no more than kMaxPieces and those of one
  // step are made.
  absl::StatusOr<Step> Next(GeneratedPiece* piece);
  // `wake` is not called any more, and no step begins.
  void Stop();

  static constexpr size_t kMaxPieces = 64;

 private:
  using States = std::vector<std::shared_ptr<CarriedState>>;

  Generation(Batcher& batcher, Executor executor, GenerationRequest request,
             std::function<void()> wake);

  // The way of a generation, each when the one before is done: ReadSession,
  // RunPrompt, Fork; Draw, RunStep, Draw, ...; with a session CommitSession.
  void ReadSession();
  void RunPrompt(CarriedState::Values start);
  void Fork();
  void Draw();
  void DrawNow();
  void ForgetFinished();
  void RunStep();
  void CommitSession();

  // Runs tokens from states_, as many for each; `next` comes after it, with the
  // logits of each one's last row in logits_ if they are wanted.
  void Run(std::vector<int32_t> tokens, bool want_output,
           void (Generation::*next)());
  void KeepLastRows(const ChunkRows& chunk, int64_t length);

  std::vector<GeneratedPiece> Echo() const;
  // Whether the next step is to begin: whoever reads begins it otherwise.
  bool Emit(std::vector<GeneratedPiece> pieces);
  void End(absl::Status status);
  bool ended() const;
  void WakeReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Batcher& batcher_;
  const Executor executor_;
  const GenerationRequest request_;
  const int64_t vocabulary_size_;

  // Of whoever has the turn: one request, or what comes between two.
  std::vector<std::unique_ptr<GeneratedSample>> samples_;  // unfinished ones
  States states_;                                          // theirs
  std::vector<float> logits_;                              // [samples, V]
  GeneratedPiece last_;  // of a session, until it is committed

  mutable absl::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::deque<GeneratedPiece> pieces_ ABSL_GUARDED_BY(mutex_);
  bool wakes_ ABSL_GUARDED_BY(mutex_) = false;   // somebody waits
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // the next step does
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // of the end
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_GENERATION_H_
