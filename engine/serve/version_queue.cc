#include "engine/serve/version_queue.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

namespace recurve {
namespace {

// Of those who name no flow each is one. A hash that two flows share makes them
// one, which costs them no more than a share.
uint64_t FlowOf(const BatcherRequest& request, const void* self) {
  return request.flow.empty() ? absl::HashOf(self) : absl::HashOf(request.flow);
}

int64_t LongestOf(const SequenceBatch& batch) {
  int64_t longest = 0;
  for (int64_t b = 0; b < batch.num_sequences(); ++b) {
    longest = std::max(longest, batch.cu_seqlens[b + 1] - batch.cu_seqlens[b]);
  }
  return longest;
}

// See TakePick.
void RemoveMarked(std::vector<WaitingPart>& parts) {
  parts.erase(
      std::remove_if(parts.begin(), parts.end(),
                     [](const WaitingPart& part) { return part.sequence < 0; }),
      parts.end());
}

}  // namespace

PendingRequest::PendingRequest(BatcherRequest given, absl::Time now)
    : request(std::move(given)),
      arrival(now),
      flow(FlowOf(request, this)),
      longest(LongestOf(request.batch)),
      waiting_rows(rows()),
      unfinished(sequences()) {}

VersionQueue::VersionQueue(const BatchLimits& limits, bool cuts_in_time,
                           int64_t carry_size)
    : limits_(limits), cuts_in_time_(cuts_in_time), carry_size_(carry_size) {}

void VersionQueue::Add(Pending request) {
  waiting_rows_ += request->waiting_rows;
  // Each by itself, since each may be bound to another device.
  if (!request->request.states.empty()) {
    for (int64_t b = 0; b < request->sequences(); ++b) {
      request->parts.push_back(
          {b, request->begin(b), CarryAtStart(*request, b)});
    }
    request->next_sequence = request->sequences();
  }
  requests_.push_back(std::move(request));
}

SequenceCarry VersionQueue::CarryAtStart(const PendingRequest& request,
                                         int64_t sequence) const {
  const auto& states = request.request.states;
  if (states.empty()) return {};
  const bool replay = request.request.replay;
  return {states[sequence], replay, replay ? nullptr : states[sequence]};
}

// --- A pass ---

VersionQueue::Taken VersionQueue::Take(int device, int64_t longest,
                                       absl::Time now) {
  Taken taken;
  sequences_.clear();
  offers_.clear();
  OfferAll(device, longest, taken);
  const BatchPlan plan = PlanBatch(sequences_, limits_, now);
  taken.wait_until = plan.wait_until;
  TakePicks(plan.picks, now, taken);
  return taken;
}

bool VersionQueue::MayTake(const PendingRequest& request, int device) const {
  return request.waiting_rows > 0 && (request.devices >> device & 1) != 0;
}

// No more of a request than a pass could have of all: with many requests a
// part of that, so that planning takes no longer than a fraction of the pass.
void VersionQueue::OfferAll(int device, int64_t longest, Taken& taken) {
  constexpr int64_t kLeast = 8;
  const auto requests = static_cast<int64_t>(requests_.size());
  const int64_t most = std::max(
      kLeast, kLeast * limits_.max_rows / std::max<int64_t>(1, requests));
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (!MayTake(*requests_[i], device)) continue;
    OfferRequest(i, device, longest, most, taken);
  }
}

void VersionQueue::OfferRequest(size_t index, int device, int64_t longest,
                                int64_t most, Taken& taken) {
  PendingRequest& request = *requests_[index];
  for (size_t p = 0; p < request.parts.size() && most > 0; ++p) {
    const WaitingPart& part = request.parts[p];
    if (part.carry.source != nullptr) {
      const auto bound = part.carry.source->device();
      if (bound.has_value() && *bound != device) continue;
    }
    const int64_t rows = RowsOf(request, part.sequence, part.row);
    most -=
        OfferSequence({&request, index, static_cast<int64_t>(p), part.sequence},
                      rows, longest, taken);
  }
  for (int64_t b = request.next_sequence; b < request.sequences() && most > 0;
       ++b) {
    most -= OfferSequence({&request, index, -1, b},
                          RowsOf(request, b, request.begin(b)), longest, taken);
  }
}

int64_t VersionQueue::RowsOf(const PendingRequest& request, int64_t sequence,
                             int64_t row) const {
  return request.end(sequence) - row;
}

bool VersionQueue::OfferSequence(const Offer& offer, int64_t rows,
                                 int64_t longest, Taken& taken) {
  if (!cuts_in_time_ && rows > std::max(longest, limits_.max_rows)) {
    taken.longer = std::max(taken.longer, rows);
    return false;
  }
  const BatcherRequest& request = offer.request->request;
  sequences_.push_back({rows, cuts_in_time_, request.priority,
                        request.control.deadline, offer.request->arrival,
                        offer.request->flow});
  offers_.push_back(offer);
  return true;
}

void VersionQueue::TakePicks(absl::Span<const BatchPick> picks, absl::Time now,
                             Taken& taken) {
  taken.parts.reserve(picks.size());
  for (size_t i = 0; i < picks.size(); ++i) {
    const Offer& offer = offers_[picks[i].index];
    PendingRequest& request = *offer.request;
    taken.parts.push_back(TakePick(offer, picks[i].rows));
    ++request.running;
    request.waiting_rows -= picks[i].rows;
    waiting_rows_ -= picks[i].rows;
    if (!request.begun.has_value()) request.begun = now;
    const bool last_of_request =
        i + 1 == picks.size() ||
        offers_[picks[i + 1].index].request != &request;
    if (last_of_request) RemoveMarked(request.parts);
  }
}

// Leaves a mark where a part was.
TakenPart VersionQueue::TakePick(const Offer& offer, int64_t rows) {
  TakenPart taken = {requests_[offer.request_index], {}, rows};
  PendingRequest& request = *offer.request;
  if (offer.part < 0) {
    // What was passed over waits by itself from now on.
    while (request.next_sequence < offer.sequence) {
      const int64_t b = request.next_sequence++;
      request.parts.push_back({b, request.begin(b), {}});
    }
    ++request.next_sequence;
    taken.part = {offer.sequence, request.begin(offer.sequence), {}};
  } else {
    taken.part = std::move(request.parts[offer.part]);
    request.parts[offer.part].sequence = -1;
  }
  const bool goes_on = taken.part.row + rows < request.end(taken.part.sequence);
  if (goes_on) KeepCarry(taken.part.carry);
  return taken;
}

// What only the rest of the same request needs is kept beside it.
void VersionQueue::KeepCarry(SequenceCarry& carry) const {
  if (carry.target != nullptr) return;
  carry.target =
      CarriedState::Create(carry_size_, CarriedState::Kind::kHostOnly);
}

std::vector<Pending> VersionQueue::Return(
    std::vector<TakenPart> parts, absl::Span<const absl::Status> statuses,
    const PassTimes& times) {
  const PendingRequest* last = nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    PendingRequest& request = *parts[i].request;
    request.status.Update(statuses[i]);
    --request.running;
    if (last != &request) request.passes += times;
    last = &request;
    if (request.status.ok()) PutBack(parts[i]);
  }
  for (const TakenPart& part : parts) {
    if (!part.request->status.ok()) StopWaiting(*part.request);
  }
  return RemoveIf([](const PendingRequest& request) {
    return request.running == 0 &&
           (request.unfinished == 0 || !request.status.ok());
  });
}

// The rest of it, if there is one.
void VersionQueue::PutBack(const TakenPart& taken) {
  PendingRequest& request = *taken.request;
  WaitingPart rest = taken.part;
  rest.row += taken.rows;
  if (rest.row == request.end(rest.sequence)) {
    --request.unfinished;
    return;
  }
  rest.carry.source = rest.carry.target;
  rest.carry.from_other = true;
  request.parts.push_back(std::move(rest));
}

// --- Ends ---

void VersionQueue::StopWaiting(PendingRequest& request) {
  waiting_rows_ -= std::exchange(request.waiting_rows, 0);
}

template <typename Ends>
std::vector<Pending> VersionQueue::RemoveIf(const Ends& ends) {
  std::vector<Pending> ended;
  const auto left = std::stable_partition(
      requests_.begin(), requests_.end(),
      [&](const Pending& request) { return !ends(*request); });
  ended.assign(left, requests_.end());
  requests_.erase(left, requests_.end());
  return ended;
}

std::vector<Pending> VersionQueue::Expire(absl::Time now) {
  bool any = false;
  for (const Pending& request : requests_) {
    if (request->waiting_rows == 0) continue;
    absl::Status status = request->request.control.Check(now);
    if (status.ok()) continue;
    request->status.Update(std::move(status));
    StopWaiting(*request);
    any = true;
  }
  if (!any) return {};
  return RemoveIf([](const PendingRequest& request) {
    return request.running == 0 && !request.status.ok();
  });
}

std::vector<Pending> VersionQueue::Refuse(DeviceSet refused,
                                          const absl::Status& status) {
  for (const Pending& request : requests_) {
    if (request->waiting_rows == 0 || (request->devices & ~refused) != 0) {
      continue;
    }
    request->status.Update(status);
    StopWaiting(*request);
  }
  return RemoveIf([](const PendingRequest& request) {
    return request.running == 0 && !request.status.ok();
  });
}

// --- Questions ---

bool VersionQueue::HasWorkFor(int device) const {
  return std::any_of(
      requests_.begin(), requests_.end(), [&](const Pending& request) {
        if (!MayTake(*request, device)) return false;
        if (request->next_sequence < request->sequences()) return true;
        return std::any_of(
            request->parts.begin(), request->parts.end(),
            [&](const WaitingPart& part) {
              return part.carry.source == nullptr ||
                     part.carry.source->device().value_or(device) == device;
            });
      });
}

VersionQueue::Bound VersionQueue::BoundTo(int device) const {
  Bound bound;
  for (const Pending& request : requests_) {
    for (const WaitingPart& part : request->parts) {
      const auto& state = part.carry.source;
      if (state == nullptr || state->device() != device) continue;
      bound.rows += RowsOf(*request, part.sequence, part.row);
      bound.states.push_back(state);
    }
  }
  return bound;
}

int64_t VersionQueue::LongestFor(int device) const {
  if (cuts_in_time_) return 0;
  int64_t longest = limits_.max_rows;
  for (const Pending& request : requests_) {
    if (!MayTake(*request, device)) continue;
    for (const WaitingPart& part : request->parts) {
      longest = std::max(longest, RowsOf(*request, part.sequence, part.row));
    }
    for (int64_t b = request->next_sequence; b < request->sequences(); ++b) {
      longest = std::max(longest, RowsOf(*request, b, request->begin(b)));
    }
  }
  return longest > limits_.max_rows ? longest : 0;
}

absl::Time VersionQueue::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Pending& request : requests_) {
    if (request->waiting_rows == 0) continue;
    next = std::min(next, request->request.control.deadline);
  }
  return next;
}

int64_t VersionQueue::RowsBefore(const PendingRequest& request) const {
  BacklogEstimate before(WaitingOf(request), limits_);
  for (const Pending& other : requests_) {
    if (other->waiting_rows > 0) before.Add(WaitingOf(*other));
  }
  return before.rows();
}

QueuedRequest VersionQueue::WaitingOf(const PendingRequest& request) const {
  return {{std::min(request.longest, request.waiting_rows), cuts_in_time_,
           request.request.priority, request.request.control.deadline,
           request.arrival, request.flow},
          request.waiting_rows,
          request.unfinished};
}

}  // namespace recurve
