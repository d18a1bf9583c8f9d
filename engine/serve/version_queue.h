// The requests for one model version, and how far each is. No thread, no
// device, no clock.
#ifndef RECURVE_ENGINE_SERVE_VERSION_QUEUE_H_
#define RECURVE_ENGINE_SERVE_VERSION_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/serve/backlog_estimate.h"
#include "engine/serve/batch_plan.h"
#include "engine/serve/batcher_request.h"
#include "engine/serve/carried_state.h"
#include "engine/serve/serving_statistics.h"

namespace recurve {

// Bit r is device r's.
using DeviceSet = uint64_t;

// Where a sequence's carry comes from and where it goes.
struct SequenceCarry {
  std::shared_ptr<CarriedState> source;  // null: zeros
  bool from_other = false;               // of its rows: else the committed one
  std::shared_ptr<CarriedState> target;  // its other row; null: is not kept
};

struct WaitingPart {  // a sequence from `row` on
  int64_t sequence = 0;
  int64_t row = 0;
  SequenceCarry carry;
};

// A request on its way. All but what is const belongs to its queue.
struct PendingRequest {
  PendingRequest(BatcherRequest given, absl::Time now);

  int64_t rows() const { return request.batch.num_rows(); }
  int64_t sequences() const { return request.batch.num_sequences(); }
  int64_t begin(int64_t sequence) const {
    return request.batch.cu_seqlens[sequence];
  }
  int64_t end(int64_t sequence) const { return begin(sequence + 1); }

  const BatcherRequest request;
  const absl::Time arrival;
  const uint64_t flow;
  const int64_t longest;              // rows of a sequence
  DeviceSet devices = ~DeviceSet{0};  // that could hold its longest pass
  int64_t bytes = 0;                  // that it counts for

  // Waiting are these parts, and all sequences from here on.
  std::vector<WaitingPart> parts;
  int64_t next_sequence = 0;
  int64_t waiting_rows = 0;
  int64_t running = 0;     // sequences that are in a pass
  int64_t unfinished = 0;  // sequences
  absl::Status status;     // the first error
  std::optional<absl::Time> begun;
  PassTimes passes;  // that it was in
};
using Pending = std::shared_ptr<PendingRequest>;

// Rows of one sequence in a pass.
struct TakenPart {
  Pending request;
  WaitingPart part;
  int64_t rows = 0;
};

class VersionQueue {
 public:
  // `limits.max_rows` also bounds a chunk of a sequence that is cut. With
  // cuts_in_time the carries have `carry_size` floats.
  VersionQueue(const BatchLimits& limits, bool cuts_in_time,
               int64_t carry_size);

  const BatchLimits& limits() const { return limits_; }
  bool empty() const { return requests_.empty(); }
  // Of all that wait.
  int64_t waiting_rows() const { return waiting_rows_; }

  void Add(Pending request);

  // Those whose caller has gone or whose deadline has passed, but for what
  // still runs of them. They have left the queue.
  std::vector<Pending> Expire(absl::Time now);
  // The next pass of a device that can hold sequences of `longest` rows.
  struct Taken {
    std::vector<TakenPart> parts;
    absl::Time wait_until;  // as BatchPlan's
    // Rows of a sequence that the device could have, were its memory for so
    // many; 0 if there is none.
    int64_t longer = 0;
  };
  Taken Take(int device, int64_t longest, absl::Time now);
  // After the pass, with a status for each part: the requests that have ended,
  // each with its status. They have left the queue.
  std::vector<Pending> Return(std::vector<TakenPart> parts,
                              absl::Span<const absl::Status> statuses,
                              const PassTimes& times);
  // Gives up those that only devices of `refused` could run. They have left the
  // queue.
  std::vector<Pending> Refuse(DeviceSet refused, const absl::Status& status);

  // Whether anything waits that this device may take.
  bool HasWorkFor(int device) const;
  // What waits and can run on this device alone, as its states are there.
  struct Bound {
    int64_t rows = 0;
    std::vector<std::shared_ptr<CarriedState>> states;
  };
  Bound BoundTo(int device) const;
  // Rows in a device's pass of the longest sequence that is not cut, if it is
  // more than max_rows; else 0.
  int64_t LongestFor(int device) const;
  // The first deadline of those that wait.
  absl::Time NextDeadline() const;
  // Rows that go before a request is done that would come now, as
  // BacklogEstimate says it.
  int64_t RowsBefore(const PendingRequest& request) const;

 private:
  struct Offer {  // behind a WaitingSequence
    PendingRequest* request;
    size_t request_index;
    int64_t part;  // index; -1: a sequence that has not begun
    int64_t sequence;
  };

  QueuedRequest WaitingOf(const PendingRequest& request) const;
  bool MayTake(const PendingRequest& request, int device) const;
  int64_t RowsOf(const PendingRequest& request, int64_t sequence,
                 int64_t row) const;
  void OfferAll(int device, int64_t longest, Taken& taken);
  void OfferRequest(size_t index, int device, int64_t longest, int64_t most,
                    Taken& taken);
  bool OfferSequence(const Offer& offer, int64_t rows, int64_t longest,
                     Taken& taken);
  void TakePicks(absl::Span<const BatchPick> picks, absl::Time now,
                 Taken& taken);
  TakenPart TakePick(const Offer& offer, int64_t rows);
  void PutBack(const TakenPart& taken);
  SequenceCarry CarryAtStart(const PendingRequest& request,
                             int64_t sequence) const;
  void KeepCarry(SequenceCarry& carry) const;
  void StopWaiting(PendingRequest& request);
  template <typename Ends>
  std::vector<Pending> RemoveIf(const Ends& ends);

  const BatchLimits limits_;
  const bool cuts_in_time_;
  const int64_t carry_size_;
  std::vector<Pending> requests_;  // in the order of arrival
  int64_t waiting_rows_ = 0;
  // Of the last Take, kept for their memory.
  std::vector<WaitingSequence> sequences_;
  std::vector<Offer> offers_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_VERSION_QUEUE_H_
