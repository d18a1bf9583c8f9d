#include "engine/serve/batch_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace recurve {
namespace {

// A waiting sequence on its way into a pass.
struct Candidate {
  size_t index = 0;
  const WaitingSequence* sequence = nullptr;
  bool first = false;  // came before all others of its priority
  TurnInFlow turn;
  int64_t most_rows = 0;  // of it in this pass
  int64_t rows = 0;       // so far
};

// Those of one flow, in the order in which they are taken.
struct Flow {
  absl::Span<Candidate> candidates;
  absl::Time arrival = absl::InfiniteFuture();  // of who came first
  int64_t demand = 0;  // rows that it could have in this pass
  int64_t share = 0;   // that it gets
};

class Planner {
 public:
  Planner(absl::Span<const WaitingSequence> waiting, const BatchLimits& limits)
      : waiting_(waiting),
        limits_(limits),
        rows_left_(limits.max_rows),
        sequences_left_(limits.max_sequences) {}

  std::vector<BatchPick> Plan() {
    if (AllFit()) return TakeAll();
    Gather();
    for (auto begin = candidates_.begin(); begin != candidates_.end();) {
      const int priority = begin->sequence->priority;
      const auto end = std::find_if(begin, candidates_.end(), [&](auto& c) {
        return c.sequence->priority != priority;
      });
      FillFrom(absl::MakeSpan(&*begin, end - begin));
      begin = end;
    }
    return Picks();
  }

 private:
  // The common case, without any order.
  bool AllFit() const {
    if (static_cast<int64_t>(waiting_.size()) > limits_.max_sequences) {
      return false;
    }
    int64_t rows = 0;
    for (const WaitingSequence& sequence : waiting_) {
      rows += sequence.rows;
      if (sequence.rows > limits_.max_chunk_rows && waiting_.size() > 1) {
        return false;
      }
    }
    return rows <= limits_.max_rows;
  }

  std::vector<BatchPick> TakeAll() const {
    std::vector<BatchPick> picks;
    picks.reserve(waiting_.size());
    for (size_t i = 0; i < waiting_.size(); ++i) {
      picks.push_back({i, waiting_[i].rows});
    }
    return picks;
  }

  // By priority, flow and turn.
  void Gather() {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const WaitingSequence& sequence = waiting_[i];
      candidates_.push_back({i, &sequence, /*first=*/false,
                             TurnOf(sequence, limits_),
                             MostRows(sequence, limits_)});
    }
    if (candidates_.size() == 1) OfferAllOf(candidates_[0]);
    MarkFirst();
    std::sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) {
          const auto key = [](const Candidate& c) {
            return std::tuple<int, uint64_t, bool, const TurnInFlow&, size_t>(
                c.sequence->priority, c.sequence->flow, !c.first, c.turn,
                c.index);
          };
          return key(a) < key(b);
        });
  }

  // That nobody waits for.
  void OfferAllOf(Candidate& candidate) const {
    if (!candidate.sequence->may_cut) return;
    candidate.most_rows = std::min(candidate.sequence->rows, limits_.max_rows);
  }

  void MarkFirst() {
    std::vector<Candidate*> by_age;
    for (Candidate& candidate : candidates_) by_age.push_back(&candidate);
    const auto older = [](const Candidate* a, const Candidate* b) {
      return std::tie(a->sequence->priority, a->sequence->arrival) <
             std::tie(b->sequence->priority, b->sequence->arrival);
    };
    std::stable_sort(by_age.begin(), by_age.end(), older);
    const Candidate* last = nullptr;
    for (Candidate* candidate : by_age) {
      candidate->first = last == nullptr || last->sequence->priority !=
                                                candidate->sequence->priority;
      last = candidate;
    }
  }

  // One priority's.
  void FillFrom(absl::Span<Candidate> candidates) {
    if (rows_left_ <= 0 || sequences_left_ <= 0) return;
    for (Candidate& candidate : candidates) {
      if (candidate.first && !candidate.sequence->may_cut) TakeWhole(candidate);
    }
    if (rows_left_ <= 0 || sequences_left_ <= 0) return;
    std::vector<Flow> flows = FlowsOf(candidates);
    const int64_t most = std::min<int64_t>(
        {static_cast<int64_t>(flows.size()), rows_left_, sequences_left_});
    const auto sharing = absl::MakeSpan(flows).subspan(0, most);
    Share(sharing);
    for (const Flow& flow : sharing) TakeShare(flow);
    for (const Flow& flow : flows) TakeWhatFits(flow);
  }

  // The oldest first.
  static std::vector<Flow> FlowsOf(absl::Span<Candidate> candidates) {
    std::vector<Flow> flows;
    for (size_t begin = 0, end = 0; begin < candidates.size(); begin = end) {
      while (end < candidates.size() && candidates[end].sequence->flow ==
                                            candidates[begin].sequence->flow) {
        ++end;
      }
      flows.push_back(FlowOf(candidates.subspan(begin, end - begin)));
    }
    std::stable_sort(
        flows.begin(), flows.end(),
        [](const Flow& a, const Flow& b) { return Age(a) < Age(b); });
    return flows;
  }

  static std::pair<absl::Time, bool> Age(const Flow& flow) {
    return {flow.arrival, !flow.candidates[0].first};
  }

  static Flow FlowOf(absl::Span<Candidate> candidates) {
    Flow flow;
    flow.candidates = candidates;
    bool has_part = false;  // more than a share, maybe
    for (const Candidate& candidate : candidates) {
      flow.arrival = std::min(flow.arrival, candidate.sequence->arrival);
      flow.demand += candidate.most_rows;
      has_part = has_part || candidate.rows > 0;
    }
    if (has_part) flow.demand = 0;
    return flow;
  }

  // The rows that are left, by water-filling: no flow that gets less than it
  // could have gets less than another.
  void Share(absl::Span<Flow> flows) const {
    std::vector<Flow*> by_demand;
    for (Flow& flow : flows) by_demand.push_back(&flow);
    std::stable_sort(
        by_demand.begin(), by_demand.end(),
        [](const Flow* a, const Flow* b) { return a->demand < b->demand; });
    int64_t rows = rows_left_;
    auto sharers = static_cast<int64_t>(flows.size());
    for (Flow* const flow : by_demand) {
      const int64_t level = rows / sharers;
      if (flow->demand > level) {
        return level < limits_.min_chunk_rows
                   ? ShareInTurn(flows[0], by_demand, level, rows)
                   : ShareEqually(flows, level, rows - level * sharers);
      }
      flow->share = flow->demand;
      rows -= flow->share;
      --sharers;
    }
  }

  // Among flows that could have more than `level`; the `rest` is too little to
  // be shared, and goes to the oldest.
  static void ShareEqually(absl::Span<Flow> flows, int64_t level,
                           int64_t rest) {
    for (Flow& flow : flows) {
      if (flow.demand > level) flow.share = level + (rest-- > 0 ? 1 : 0);
    }
  }

  // Among the same where that is too little for each: parts that are worth it,
  // to the oldest and then to who wants the least.
  void ShareInTurn(Flow& oldest, absl::Span<Flow* const> by_demand,
                   int64_t level, int64_t rows) const {
    const auto give = [&](Flow& flow) {
      if (flow.demand <= level || flow.share > 0) return;
      flow.share = std::min({flow.demand, limits_.min_chunk_rows, rows});
      rows -= flow.share;
    };
    give(oldest);
    for (Flow* const flow : by_demand) give(*flow);
  }

  void TakeShare(const Flow& flow) {
    int64_t share = flow.share;
    for (Candidate& candidate : flow.candidates) {
      if (share <= 0) return;
      share -= Take(candidate, share);
    }
  }

  void TakeWhatFits(const Flow& flow) {
    for (Candidate& candidate : flow.candidates) {
      if (rows_left_ <= 0) return;
      Take(candidate, rows_left_);
    }
  }

  // Up to `rows` more of it; how many.
  int64_t Take(Candidate& candidate, int64_t rows) {
    if (candidate.rows == 0 && sequences_left_ <= 0) return 0;
    const int64_t most = candidate.most_rows - candidate.rows;
    const int64_t taken = std::min({rows, rows_left_, most});
    if (taken <= 0) return 0;
    if (taken < most && !candidate.sequence->may_cut) return 0;
    if (candidate.rows == 0) --sequences_left_;
    candidate.rows += taken;
    rows_left_ -= taken;
    return taken;
  }

  // Before any share, alone if need be.
  void TakeWhole(Candidate& candidate) {
    const bool alone = rows_left_ == limits_.max_rows;
    if (candidate.most_rows > rows_left_ && !alone) return;
    candidate.rows = candidate.most_rows;
    rows_left_ -= candidate.rows;
    --sequences_left_;
  }

  std::vector<BatchPick> Picks() const {
    std::vector<BatchPick> picks;
    for (const Candidate& candidate : candidates_) {
      if (candidate.rows > 0)
        picks.push_back({candidate.index, candidate.rows});
    }
    std::sort(picks.begin(), picks.end(),
              [](const BatchPick& a, const BatchPick& b) {
                return a.index < b.index;
              });
    return picks;
  }

  const absl::Span<const WaitingSequence> waiting_;
  const BatchLimits& limits_;
  std::vector<Candidate> candidates_;
  int64_t rows_left_;
  int64_t sequences_left_;
};

// In the order of arrival.
std::vector<BatchPick> PlanPadded(absl::Span<const WaitingSequence> waiting,
                                  const BatchLimits& limits) {
  std::vector<size_t> order(waiting.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return waiting[a].arrival < waiting[b].arrival;
  });
  std::vector<BatchPick> picks;
  int64_t longest = 0;
  for (const size_t index : order) {
    longest = std::max(longest, waiting[index].rows);
    const auto sequences = static_cast<int64_t>(picks.size()) + 1;
    const bool fits = sequences * longest <= limits.max_rows &&
                      sequences <= limits.max_sequences;
    if (!fits && !picks.empty()) break;
    picks.push_back({index, waiting[index].rows});
  }
  std::sort(
      picks.begin(), picks.end(),
      [](const BatchPick& a, const BatchPick& b) { return a.index < b.index; });
  return picks;
}

bool IsFull(absl::Span<const WaitingSequence> waiting,
            const BatchLimits& limits) {
  if (static_cast<int64_t>(waiting.size()) >= limits.max_sequences) return true;
  int64_t rows = 0;
  for (const WaitingSequence& sequence : waiting) rows += sequence.rows;
  return rows >= limits.max_rows;
}

// Nobody waits for others beyond half of the time that it has.
absl::Time WaitUntil(absl::Span<const WaitingSequence> waiting,
                     const BatchLimits& limits) {
  absl::Time until = absl::InfiniteFuture();
  for (const WaitingSequence& sequence : waiting) {
    const absl::Duration time = sequence.deadline - sequence.arrival;
    until =
        std::min(until, sequence.arrival + std::min(limits.timeout, time / 2));
  }
  return until;
}

}  // namespace

int64_t MostRows(const WaitingSequence& sequence, const BatchLimits& limits) {
  return sequence.may_cut ? std::min(sequence.rows, limits.max_chunk_rows)
                          : sequence.rows;
}

TurnInFlow TurnOf(const WaitingSequence& sequence, const BatchLimits& limits) {
  return {sequence.deadline, MostRows(sequence, limits), sequence.arrival};
}

BatchPlan PlanBatch(absl::Span<const WaitingSequence> waiting,
                    const BatchLimits& limits, absl::Time now) {
  BatchPlan plan;
  if (waiting.empty()) return plan;
  if (limits.timeout > absl::ZeroDuration() && !IsFull(waiting, limits)) {
    plan.wait_until = WaitUntil(waiting, limits);
    if (now < plan.wait_until) return plan;
    plan.wait_until = absl::InfiniteFuture();
  }
  plan.picks = limits.pad_to_longest ? PlanPadded(waiting, limits)
                                     : Planner(waiting, limits).Plan();
  return plan;
}

}  // namespace recurve
