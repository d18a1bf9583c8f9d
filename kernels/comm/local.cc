// Collectives between threads whose devices can read each other's memory. Ranks
// meet, each copies what it is due straight from its peers' buffers, and they
// meet again before anyone returns, so that no buffer is reused while a peer
// still reads it.
#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/status.h"

namespace recurve {
namespace {

enum class Operation { kExchange, kAllGather, kBarrier };

const char* Name(Operation operation) {
  switch (operation) {
    case Operation::kExchange:
      return "Exchange";
    case Operation::kAllGather:
      return "AllGather";
    case Operation::kBarrier:
      return "Barrier";
  }
  return "?";
}

// What one rank asks for. Lives on that rank's stack, and does not change,
// until the collective is over for everyone.
struct Call {
  Operation operation = Operation::kBarrier;
  Backend* backend = nullptr;                        // but for a Barrier
  absl::Span<const Communicator::Send> sends;        // Exchange
  absl::Span<const Communicator::Receive> receives;  // Exchange
  float* data = nullptr;                             // AllGather
  absl::Span<const int64_t> offsets;                 // AllGather
};

// One entry a rank.
using Calls = absl::InlinedVector<const Call*, 16>;

// --- Do the ranks' calls fit together? ---

absl::Status CheckExchange(const Calls& calls) {
  const size_t world_size = calls.size();
  for (size_t r = 0; r < world_size; ++r) {
    if (calls[r]->sends.size() != world_size ||
        calls[r]->receives.size() != world_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Exchange: rank ", r, " has ", calls[r]->sends.size(), " sends and ",
          calls[r]->receives.size(), " receives for ", world_size, " ranks"));
    }
  }
  for (size_t from = 0; from < world_size; ++from) {
    for (size_t to = 0; to < world_size; ++to) {
      const Communicator::Send& send = calls[from]->sends[to];
      const Communicator::Receive& receive = calls[to]->receives[from];
      if (send.count != receive.count || send.count < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Exchange: rank ", from, " sends ", send.count, " floats to rank ",
            to, ", which expects ", receive.count));
      }
      if (send.count > 0 && (send.data == nullptr || receive.data == nullptr)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Exchange: no buffer for ", send.count,
                         " floats from rank ", from, " to rank ", to));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAllGather(const Calls& calls) {
  const absl::Span<const int64_t> offsets = calls[0]->offsets;
  if (offsets.size() != calls.size() + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("AllGather: ", offsets.size(), " offsets for ",
                     calls.size(), " ranks"));
  }
  if (offsets.front() < 0 || !std::is_sorted(offsets.begin(), offsets.end())) {
    return absl::InvalidArgumentError("AllGather: offsets go down");
  }
  for (size_t r = 0; r < calls.size(); ++r) {
    if (calls[r]->offsets != offsets) {
      return absl::InvalidArgumentError(
          absl::StrCat("AllGather: offsets of ranks 0 and ", r, " differ"));
    }
    if (calls[r]->data == nullptr && offsets.back() > offsets.front()) {
      return absl::InvalidArgumentError(
          absl::StrCat("AllGather: rank ", r, " has no buffer"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const Calls& calls) {
  const Operation operation = calls[0]->operation;
  for (size_t r = 0; r < calls.size(); ++r) {
    if (calls[r]->operation != operation) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank 0 calls ", Name(operation), " while rank ", r,
                       " calls ", Name(calls[r]->operation)));
    }
  }
  switch (operation) {
    case Operation::kExchange:
      return CheckExchange(calls);
    case Operation::kAllGather:
      return CheckAllGather(calls);
    case Operation::kBarrier:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// --- What one rank copies, from calls that fit together ---

absl::Status CopyFloats(Backend& backend, float* to, const float* from,
                        int64_t count) {
  // A rank may send to itself in place.
  if (count == 0 || to == from) return absl::OkStatus();
  return backend.Copy(to, from, count * static_cast<int64_t>(sizeof(float)));
}

absl::Status CopyExchange(const Calls& calls, int rank) {
  const Call& own = *calls[rank];
  for (size_t from = 0; from < calls.size(); ++from) {
    const Communicator::Receive& receive = own.receives[from];
    RETURN_IF_ERROR(CopyFloats(*own.backend, receive.data,
                               calls[from]->sends[rank].data, receive.count));
  }
  return absl::OkStatus();
}

absl::Status CopyAllGather(const Calls& calls, int rank) {
  const Call& own = *calls[rank];
  for (size_t from = 0; from < calls.size(); ++from) {
    const int64_t begin = own.offsets[from];
    RETURN_IF_ERROR(CopyFloats(*own.backend, own.data + begin,
                               calls[from]->data + begin,
                               own.offsets[from + 1] - begin));
  }
  return absl::OkStatus();
}

// Ends when the copies are there.
absl::Status Copy(const Calls& calls, int rank) {
  const Call& own = *calls[rank];
  if (own.operation == Operation::kBarrier) return absl::OkStatus();
  RETURN_IF_ERROR(own.operation == Operation::kExchange
                      ? CopyExchange(calls, rank)
                      : CopyAllGather(calls, rank));
  return own.backend->Synchronize();
}

// Where the ranks of one group meet. Thread-safe.
class Group {
 public:
  explicit Group(int world_size)
      : world_size_(world_size), calls_(world_size, nullptr) {}

  int world_size() const { return world_size_; }

  // Takes part in a collective as `rank`; all ranks get the same status, except
  // that an Abort may reach some ranks within it and others after it.
  absl::Status Run(int rank, const Call& call) {
    // Peers read this rank's buffers: what writes them must be done.
    if (call.backend != nullptr) AbortIfFailed(call.backend->Synchronize());
    Calls calls;
    absl::Status status = Meet(rank, call, calls);
    if (calls.empty()) return status;  // aborted before all had come
    if (status.ok()) AbortIfFailed(Copy(calls, rank));
    absl::Status aborted = Leave();
    return aborted.ok() ? status : aborted;
  }

  void Abort(absl::Status status) {
    if (status.ok()) status = absl::AbortedError("communicator aborted");
    absl::MutexLock lock(&mutex_);
    aborted_.Update(std::move(status));  // the first one stays
  }

  absl::Status status() const {
    absl::MutexLock lock(&mutex_);
    return aborted_;
  }

 private:
  void AbortIfFailed(absl::Status status) {
    if (!status.ok()) Abort(std::move(status));
  }

  // Waits until every rank has called and says whether the calls fit together.
  // `calls` stays empty if the group was aborted first; otherwise Leave must
  // follow, whatever the status: peers may be reading this rank's buffers.
  absl::Status Meet(int rank, const Call& call, Calls& calls) {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    calls_[rank] = &call;
    if (++arrived_ == world_size_) {
      outcome_ = Check(calls_);
      arrived_ = 0;
      copying_ = world_size_;
      ++meetings_;
    } else {
      const Waiter waiter = {this, meetings_};
      mutex_.Await(absl::Condition(&CalledOrAborted, &waiter));
      if (meetings_ == waiter.count) return aborted_;
    }
    calls = calls_;
    return outcome_;
  }

  // Waits until every rank has copied. That is never long, and no Abort cuts
  // it short: all the ranks are inside Run.
  absl::Status Leave() {
    absl::MutexLock lock(&mutex_);
    if (--copying_ == 0) {
      ++departures_;
    } else {
      const Waiter waiter = {this, departures_};
      mutex_.Await(absl::Condition(&AllCopied, &waiter));
    }
    return aborted_;
  }

  // Counted meetings, not flags: a fast rank may be in the next collective
  // before a slow one has noticed the end of this one.
  struct Waiter {
    const Group* group;
    int64_t count;
  };
  static bool CalledOrAborted(const Waiter* waiter)
      ABSL_NO_THREAD_SAFETY_ANALYSIS {  // Await holds the mutex
    return waiter->group->meetings_ != waiter->count ||
           !waiter->group->aborted_.ok();
  }
  static bool AllCopied(const Waiter* waiter) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return waiter->group->departures_ != waiter->count;
  }

  const int world_size_;
  mutable absl::Mutex mutex_;
  Calls calls_ ABSL_GUARDED_BY(mutex_);
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;  // of the next meeting
  int copying_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last meeting
  int64_t meetings_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t departures_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status outcome_ ABSL_GUARDED_BY(mutex_);  // of the last meeting
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
};

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return group_->world_size(); }

  absl::Status Exchange(Backend& backend, absl::Span<const Send> sends,
                        absl::Span<const Receive> receives) override {
    Call call;
    call.operation = Operation::kExchange;
    call.backend = &backend;
    call.sends = sends;
    call.receives = receives;
    return group_->Run(rank_, call);
  }

  absl::Status AllGather(Backend& backend, float* data,
                         absl::Span<const int64_t> offsets) override {
    Call call;
    call.operation = Operation::kAllGather;
    call.backend = &backend;
    call.data = data;
    call.offsets = offsets;
    return group_->Run(rank_, call);
  }

  absl::Status Barrier() override { return group_->Run(rank_, Call()); }

  void Abort(absl::Status status) override { group_->Abort(std::move(status)); }
  absl::Status status() const override { return group_->status(); }

 private:
  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateLocalCommunicators(
    int world_size) {
  assert(world_size >= 1);
  std::vector<std::unique_ptr<Communicator>> communicators;
  const auto group = std::make_shared<Group>(world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(std::make_unique<LocalCommunicator>(group, rank));
  }
  return communicators;
}

}  // namespace recurve
