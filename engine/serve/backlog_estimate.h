// How many rows go before a request that has just come: what PlanBatch is
// certain to take, pass after pass, until the request is done. No clock.
#ifndef RECURVE_ENGINE_SERVE_BACKLOG_ESTIMATE_H_
#define RECURVE_ENGINE_SERVE_BACKLOG_ESTIMATE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "engine/serve/batch_plan.h"

namespace recurve {

// What waits of one request.
struct QueuedRequest {
  WaitingSequence longest;
  int64_t rows = 0;  // of all its sequences
  int64_t sequences = 1;
};

// Takes constant time for each request that waits. Were one device to run pass
// after pass, and nobody else to come, the request would not be done before
// rows() others have run, or a pass less. It may take longer, since what
// depends on the course of things is not counted: who else has a share where
// sequences and not rows are short, who goes where another does not fit.
class BacklogEstimate {
 public:
  // `limits` outlives it.
  BacklogEstimate(const QueuedRequest& request, const BatchLimits& limits);

  // One that waits already. In the order of their arrival.
  void Add(const QueuedRequest& other);

  int64_t rows() const;  // of others

 private:
  // Who has all that a pass may have of it in each pass that has any of
  // something else.
  class Leaders {
   public:
    // One or several of together `rows`, the longest of which is `longest`:
    // each has `part` by the time that the other is done, or is done itself.
    void Add(int64_t rows, int64_t longest, int64_t part);
    // Of all. Who is not done has had `chunk` in the other's last pass.
    int64_t AtLeast(int64_t chunk, int64_t max_rows) const;

   private:
    int64_t all_ = 0;
    int64_t parts_ = 0;
    int64_t most_left_ = 0;  // of one
  };
  struct Flow {
    int64_t rows = 0;
    int64_t at_once = 0;  // that it could have in one pass
    void Add(int64_t more, int64_t more_at_once) {
      rows += more;
      at_once += more_at_once;
    }
  };

  bool GoesFirst(const QueuedRequest& other) const;
  int64_t AtOnce(const QueuedRequest& request) const;
  int64_t OfOthers(int64_t own) const;
  bool AllShare() const;
  int64_t Shared(int64_t own) const;
  int64_t SharedLater(int64_t own, int64_t shared) const;
  int64_t InTurn() const;

  const QueuedRequest request_;
  const BatchLimits& limits_;
  const bool cuts_;
  const int64_t chunk_;  // that a pass may have of a sequence
  const int64_t part_;   // so much in the passes that the request needs itself
  int64_t sequences_;    // of all
  Leaders higher_, in_flow_;
  int64_t higher_at_once_ = 0;
  Flow needed_;           // the request, and what goes before it in its flow
  Flow flow_;             // all of its flow
  bool is_first_ = true;  // of its priority
  bool flow_is_first_ = true;
  absl::flat_hash_map<uint64_t, Flow> others_;  // of its priority
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BACKLOG_ESTIMATE_H_
