#include "engine/serve/backlog_estimate.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace recurve {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

int64_t RoundUp(int64_t rows, int64_t to) { return (rows + to - 1) / to * to; }

// rows * part / whole, where that is less than rows.
int64_t PartOf(int64_t rows, int64_t part, int64_t whole) {
  if (part >= whole) return rows;
  return static_cast<int64_t>(static_cast<double>(rows) *
                              static_cast<double>(part) /
                              static_cast<double>(whole));
}

}  // namespace

void BacklogEstimate::Leaders::Add(int64_t rows, int64_t longest,
                                   int64_t part) {
  all_ += rows;
  parts_ += PartOf(rows, part, longest);
  most_left_ = std::max(most_left_, longest - part);
}

// Either bound holds: with few long ones the first is near, with many the
// second.
int64_t BacklogEstimate::Leaders::AtLeast(int64_t chunk,
                                          int64_t max_rows) const {
  const int64_t not_done = (max_rows - 1) / chunk;
  return std::max(parts_, all_ - not_done * most_left_);
}

BacklogEstimate::BacklogEstimate(const QueuedRequest& request,
                                 const BatchLimits& limits)
    : request_(request),
      limits_(limits),
      cuts_(request.longest.may_cut),
      chunk_(cuts_ ? limits.max_chunk_rows : kNoLimit),
      part_(cuts_ ? RoundUp(request.longest.rows, chunk_) : kNoLimit),
      sequences_(request.sequences) {
  needed_.Add(request.rows, AtOnce(request));
  flow_ = needed_;
}

void BacklogEstimate::Add(const QueuedRequest& other) {
  sequences_ += other.sequences;
  const int64_t rows = other.rows, at_once = AtOnce(other);
  const WaitingSequence& longest = other.longest;
  if (longest.priority > request_.longest.priority) return;
  if (longest.priority < request_.longest.priority) {
    higher_at_once_ += at_once;
    if (GoesFirst(other)) higher_.Add(rows, longest.rows, part_);
    return;
  }
  const bool in_flow = longest.flow == request_.longest.flow;
  const bool first = std::exchange(is_first_, false);
  if (first) flow_is_first_ = in_flow;
  if (!in_flow) return others_[longest.flow].Add(rows, at_once);
  flow_.Add(rows, at_once);
  if (GoesFirst(other)) {
    in_flow_.Add(rows, longest.rows, part_);
    needed_.Add(rows, at_once);
  } else if (first && cuts_) {
    const int64_t chunk = MostRows(longest, limits_);
    in_flow_.Add(chunk, chunk, chunk);
    needed_.Add(chunk, chunk);
  }
}

// Whether it has no less than it could have in the passes that the request is
// in. What is not cut may be passed over by what is shorter.
bool BacklogEstimate::GoesFirst(const QueuedRequest& other) const {
  const WaitingSequence& a = other.longest;
  const WaitingSequence& b = request_.longest;
  if (!cuts_ && a.rows > b.rows) return false;
  return a.priority < b.priority || TurnOf(a, limits_) <= TurnOf(b, limits_);
}

int64_t BacklogEstimate::AtOnce(const QueuedRequest& request) const {
  return PartOf(request.rows, chunk_, request.longest.rows);
}

int64_t BacklogEstimate::rows() const {
  const int64_t in_flow = in_flow_.AtLeast(chunk_, limits_.max_rows);
  return higher_.AtLeast(chunk_, limits_.max_rows) + in_flow +
         OfOthers(request_.rows + in_flow);
}

// While the request's flow has `own`.
int64_t BacklogEstimate::OfOthers(int64_t own) const {
  if (sequences_ > limits_.max_sequences) return 0;
  if (!cuts_) return InTurn();
  const int64_t shared = Shared(own);
  return AllShare() ? shared : std::max(InTurn(), SharedLater(own, shared));
}

// Whether PlanBatch gives each flow a share, rather than some of them a part.
bool BacklogEstimate::AllShare() const {
  const int64_t part = limits_.min_chunk_rows;
  int64_t least = std::min(flow_.at_once, part);
  for (const auto& [id, flow] : others_) least += std::min(flow.at_once, part);
  return least <= limits_.max_rows - higher_at_once_;
}

// Each has as much as the request's in a pass, unless it wants less. That is
// what it could have in one pass now; or, of what it has in all, as much as the
// request's flow could have of a single sequence.
int64_t BacklogEstimate::Shared(int64_t own) const {
  // But for the row that cannot be shared.
  own = PartOf(own, limits_.min_chunk_rows, limits_.min_chunk_rows + 1);
  const int64_t of_one =
      PartOf(own, chunk_, std::min(needed_.at_once, limits_.max_rows));
  int64_t rows = 0;
  for (const auto& [id, flow] : others_) {
    rows += std::max(std::min(flow.at_once, own), std::min(flow.rows, of_one));
  }
  return rows;
}

// As long as some flows have a part, and the request's one at most, the others
// have all the rest of a pass: `rest` in as many parts as its own are. Once all
// share, what they have not had of `shared`. The least of that, whenever the
// one turns into the other:
//   min over y of max(y, shared * (1 - y / rest)).
int64_t BacklogEstimate::SharedLater(int64_t own, int64_t shared) const {
  const int64_t part = limits_.min_chunk_rows;
  const int64_t rest_of_pass = limits_.max_rows - higher_at_once_ - part;
  if (rest_of_pass <= 0) return 0;
  const int64_t rest = own * rest_of_pass / part;
  return PartOf(shared, rest, shared + rest);
}

// Those that want no more go first: of a model that is cut in parts. But
// whoever came first has a part too; and what is not cut, and where there are
// more flows than rows, who came before.
int64_t BacklogEstimate::InTurn() const {
  const bool is_last = flow_.rows == request_.rows;
  const bool is_one_of_many =
      cuts_ && !flow_is_first_ &&
      static_cast<int64_t>(others_.size()) < limits_.max_rows - higher_at_once_;
  if (!is_last && !is_one_of_many) return 0;
  if (!cuts_ && request_.sequences > 1) return 0;
  const int64_t part = cuts_ ? limits_.min_chunk_rows : kNoLimit;
  Leaders leaders;
  for (const auto& [id, flow] : others_) {
    if (flow.at_once > flow_.at_once) continue;
    leaders.Add(flow.at_once, flow.at_once, part);
  }
  return leaders.AtLeast(part, limits_.max_rows);
}

}  // namespace recurve
