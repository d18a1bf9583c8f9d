#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/cpu/backend.h"
#include "kernels/forwarding_backend.h"

namespace recurve {
namespace {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

// Runs f(communicator of rank r, its backend) on a thread for each rank; the
// statuses.
template <typename F>
std::vector<absl::Status> OnEveryRank(const Communicators& communicators,
                                      const F& f) {
  std::vector<absl::Status> statuses(communicators.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < communicators.size(); ++r) {
    threads.emplace_back([&, r] {
      const std::unique_ptr<Backend> backend = CreateCpuBackend(1);
      statuses[r] = f(*communicators[r], *backend);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

void ExpectCode(const std::vector<absl::Status>& statuses,
                absl::StatusCode code) {
  for (size_t r = 0; r < statuses.size(); ++r) {
    EXPECT_EQ(statuses[r].code(), code) << "rank " << r << ": " << statuses[r];
  }
}

// The payload that `from` sends to `to` in round `round`: its length and what
// it holds follow from these numbers, so that the receiver can check it.
std::vector<float> Payload(int round, int from, int to) {
  std::mt19937 random(round * 10007 + from * 101 + to);
  std::vector<float> payload(random() % 300);
  for (float& value : payload) value = static_cast<float>(random());
  return payload;
}

absl::Status ExchangePayloads(Communicator& communicator, Backend& backend,
                              int round) {
  const int world_size = communicator.world_size();
  const int rank = communicator.rank();
  std::vector<std::vector<float>> out(world_size), in(world_size);
  std::vector<Communicator::Send> sends;
  std::vector<Communicator::Receive> receives;
  for (int peer = 0; peer < world_size; ++peer) {
    out[peer] = Payload(round, rank, peer);
    in[peer].resize(Payload(round, peer, rank).size());
    sends.push_back({out[peer].data(), static_cast<int64_t>(out[peer].size())});
    receives.push_back(
        {in[peer].data(), static_cast<int64_t>(in[peer].size())});
  }
  absl::Status status = communicator.Exchange(backend, sends, receives);
  if (!status.ok()) return status;
  for (int peer = 0; peer < world_size; ++peer) {
    if (in[peer] != Payload(round, peer, rank)) {
      return absl::DataLossError("wrong payload from rank " +
                                 std::to_string(peer));
    }
  }
  return absl::OkStatus();
}

class LocalCommunicatorTest : public testing::TestWithParam<int> {
 protected:
  int world_size() const { return GetParam(); }
  Communicators communicators_ = CreateLocalCommunicators(GetParam());
};

INSTANTIATE_TEST_SUITE_P(WorldSizes, LocalCommunicatorTest,
                         testing::Values(1, 2, 3, 5));

TEST_P(LocalCommunicatorTest, KnowsItsRankAndWorldSize) {
  ASSERT_EQ(communicators_.size(), static_cast<size_t>(world_size()));
  for (int r = 0; r < world_size(); ++r) {
    EXPECT_EQ(communicators_[r]->rank(), r);
    EXPECT_EQ(communicators_[r]->world_size(), world_size());
  }
}

TEST_P(LocalCommunicatorTest, ExchangeDeliversEveryPayloadOverManyRounds) {
  ExpectCode(OnEveryRank(communicators_,
                         [](Communicator& communicator, Backend& backend) {
                           for (int round = 0; round < 200; ++round) {
                             absl::Status status =
                                 ExchangePayloads(communicator, backend, round);
                             if (!status.ok()) return status;
                           }
                           return absl::OkStatus();
                         }),
             absl::StatusCode::kOk);
}

TEST_P(LocalCommunicatorTest, AllGatherGivesEveryRankEveryPart) {
  // Parts of unequal length, one of them empty; 3 floats before the first.
  std::vector<int64_t> offsets = {3};
  for (int r = 0; r < world_size(); ++r) {
    offsets.push_back(offsets.back() + (r == 1 ? 0 : 10 * r + 1));
  }
  std::vector<std::vector<float>> data(
      world_size(), std::vector<float>(offsets.back() + 2, -1.0f));
  std::vector<float> expected = data[0];
  for (int r = 0; r < world_size(); ++r) {
    for (int64_t i = offsets[r]; i < offsets[r + 1]; ++i) {
      data[r][i] = expected[i] = static_cast<float>(1000 * r + i);
    }
  }
  ExpectCode(OnEveryRank(communicators_,
                         [&](Communicator& communicator, Backend& backend) {
                           return communicator.AllGather(
                               backend, data[communicator.rank()].data(),
                               offsets);
                         }),
             absl::StatusCode::kOk);
  for (int r = 0; r < world_size(); ++r) EXPECT_EQ(data[r], expected);
}

TEST_P(LocalCommunicatorTest, BarrierHoldsEveryRankBackUntilAllHaveCome) {
  std::atomic<int> arrivals = 0;
  ExpectCode(
      OnEveryRank(communicators_,
                  [&](Communicator& communicator, Backend&) -> absl::Status {
                    for (int round = 1; round <= 300; ++round) {
                      ++arrivals;
                      absl::Status status = communicator.Barrier();
                      if (!status.ok()) return status;
                      if (arrivals < round * world_size()) {
                        return absl::InternalError("left too early");
                      }
                    }
                    return absl::OkStatus();
                  }),
      absl::StatusCode::kOk);
}

TEST_P(LocalCommunicatorTest, BuffersMayBeReusedAfterEachCall) {
  // Every rank overwrites its buffer as soon as its call has returned.
  ExpectCode(
      OnEveryRank(
          communicators_,
          [&](Communicator& communicator, Backend& backend) -> absl::Status {
            std::vector<float> data(1000);
            for (int round = 0; round < 200; ++round) {
              // One rank, another each round, has it all.
              const int root = round % world_size();
              std::vector<int64_t> offsets(world_size() + 1);
              std::fill(offsets.begin() + root + 1, offsets.end(), 1000);
              data.assign(1000, communicator.rank() + round);
              absl::Status status =
                  communicator.AllGather(backend, data.data(), offsets);
              if (!status.ok()) return status;
              if (data != std::vector<float>(1000, root + round))
                return absl::DataLossError("overwritten");
            }
            return absl::OkStatus();
          }),
      absl::StatusCode::kOk);
}

TEST_P(LocalCommunicatorTest, EmptyPartsNeedNoBuffers) {
  ExpectCode(
      OnEveryRank(
          communicators_,
          [&](Communicator& communicator, Backend& backend) {
            const std::vector<Communicator::Send> sends(world_size());
            const std::vector<Communicator::Receive> receives(world_size());
            absl::Status status =
                communicator.Exchange(backend, sends, receives);
            const std::vector<int64_t> offsets(world_size() + 1);
            status.Update(communicator.AllGather(backend, nullptr, offsets));
            return status;
          }),
      absl::StatusCode::kOk);
}

TEST_P(LocalCommunicatorTest, MismatchedExchangeFailsEverywhereAndIsOver) {
  ExpectCode(OnEveryRank(communicators_,
                         [&](Communicator& communicator, Backend& backend) {
                           std::vector<float> buffer(16);
                           std::vector<Communicator::Send> sends(world_size());
                           const std::vector<Communicator::Receive> receives(
                               world_size());
                           if (communicator.rank() == 0) {
                             sends[world_size() - 1] = {buffer.data(), 16};
                           }
                           return communicator.Exchange(backend, sends,
                                                        receives);
                         }),
             absl::StatusCode::kInvalidArgument);
  // The group is still in step.
  ExpectCode(OnEveryRank(communicators_,
                         [](Communicator& communicator, Backend& backend) {
                           return ExchangePayloads(communicator, backend, 1);
                         }),
             absl::StatusCode::kOk);
}

TEST_P(LocalCommunicatorTest, WrongNumberOfPartsFailsEverywhere) {
  const int last = world_size() - 1;
  ExpectCode(OnEveryRank(communicators_,
                         [&](Communicator& communicator, Backend& backend) {
                           const int parts =
                               world_size() + (communicator.rank() == last);
                           return communicator.Exchange(
                               backend, std::vector<Communicator::Send>(parts),
                               std::vector<Communicator::Receive>(parts));
                         }),
             absl::StatusCode::kInvalidArgument);
  ExpectCode(OnEveryRank(communicators_,
                         [&](Communicator& communicator, Backend& backend) {
                           return communicator.AllGather(
                               backend, nullptr,
                               std::vector<int64_t>(world_size()));
                         }),
             absl::StatusCode::kInvalidArgument);
}

TEST_P(LocalCommunicatorTest, OffsetsThatGoDownFailEverywhere) {
  std::vector<float> data(10);
  ExpectCode(OnEveryRank(communicators_,
                         [&](Communicator& communicator, Backend& backend) {
                           std::vector<int64_t> offsets(world_size() + 1, 5);
                           offsets.back() = 4;
                           return communicator.AllGather(backend, data.data(),
                                                         offsets);
                         }),
             absl::StatusCode::kInvalidArgument);
}

TEST_P(LocalCommunicatorTest, CallsAfterAbortReturnItsStatus) {
  EXPECT_TRUE(communicators_[0]->status().ok());
  communicators_[0]->Abort(absl::DataLossError("a device is gone"));
  communicators_[0]->Abort(absl::InternalError("a later one is ignored"));
  const std::unique_ptr<Backend> backend = CreateCpuBackend(1);
  for (const auto& communicator : communicators_) {
    EXPECT_EQ(communicator->status(), absl::DataLossError("a device is gone"));
    EXPECT_EQ(communicator->Barrier(), absl::DataLossError("a device is gone"));
    EXPECT_EQ(communicator->AllGather(*backend, nullptr, {}),
              absl::DataLossError("a device is gone"));
  }
}

TEST_P(LocalCommunicatorTest, AbortWithoutReasonIsStillAnError) {
  communicators_[0]->Abort(absl::OkStatus());
  EXPECT_EQ(communicators_[0]->Barrier().code(), absl::StatusCode::kAborted);
}

class ManyRanksTest : public LocalCommunicatorTest {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, ManyRanksTest, testing::Values(2, 3, 5));

TEST_P(ManyRanksTest, DifferentOperationsFailEverywhere) {
  ExpectCode(OnEveryRank(communicators_,
                         [](Communicator& communicator, Backend& backend) {
                           return communicator.rank() == 0
                                      ? communicator.Barrier()
                                      : communicator.AllGather(backend, nullptr,
                                                               {});
                         }),
             absl::StatusCode::kInvalidArgument);
}

TEST_P(ManyRanksTest, DifferentOffsetsFailEverywhere) {
  std::vector<float> data(100);
  ExpectCode(OnEveryRank(communicators_,
                         [&](Communicator& communicator, Backend& backend) {
                           std::vector<int64_t> offsets(world_size() + 1);
                           offsets.back() = communicator.rank();
                           return communicator.AllGather(backend, data.data(),
                                                         offsets);
                         }),
             absl::StatusCode::kInvalidArgument);
}

TEST_P(ManyRanksTest, AbortWakesRanksThatWait) {
  // The last rank never comes.
  std::vector<std::thread> threads;
  std::vector<absl::Status> statuses(world_size() - 1);
  for (int r = 0; r + 1 < world_size(); ++r) {
    threads.emplace_back(
        [&, r] { statuses[r] = communicators_[r]->Barrier(); });
  }
  communicators_.back()->Abort(absl::UnavailableError("going away"));
  for (std::thread& thread : threads) thread.join();
  ExpectCode(statuses, absl::StatusCode::kUnavailable);
}

// A CPU backend whose device breaks: it fails the operation named.
class BrokenBackend : public ForwardingBackend {
 public:
  explicit BrokenBackend(const char* operation)
      : ForwardingBackend(CreateCpuBackend(1)), operation_(operation) {}

 private:
  absl::Status Before(const char* operation) override {
    return std::strcmp(operation, operation_) == 0
               ? absl::InternalError("broken")
               : absl::OkStatus();
  }
  const char* const operation_;
};

TEST_P(ManyRanksTest, ADeviceThatFailsEndsEveryRank) {
  for (const char* operation : {"Synchronize", "Copy"}) {
    const Communicators communicators = CreateLocalCommunicators(world_size());
    std::vector<int64_t> offsets(world_size() + 1);
    for (int r = 0; r <= world_size(); ++r) offsets[r] = r;
    const std::vector<absl::Status> statuses = OnEveryRank(
        communicators, [&](Communicator& communicator, Backend& backend) {
          BrokenBackend broken(operation);
          std::vector<float> data(world_size());
          absl::Status status = communicator.AllGather(
              communicator.rank() == 1 ? broken : backend, data.data(),
              offsets);
          // Some ranks may have been done before; none goes on.
          status.Update(communicator.Barrier());
          return status;
        });
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status, absl::InternalError("broken")) << operation;
    }
  }
}

TEST_P(ManyRanksTest, AbortInTheMiddleOfTrafficEndsEveryRank) {
  for (int trial = 0; trial < 20; ++trial) {
    const Communicators communicators = CreateLocalCommunicators(world_size());
    std::atomic<int> exchanges = 0;
    std::thread aborter([&] {
      while (exchanges < 10 * trial) std::this_thread::yield();
      communicators[0]->Abort(absl::CancelledError("stop"));
    });
    ExpectCode(OnEveryRank(communicators,
                           [&](Communicator& communicator, Backend& backend) {
                             absl::Status status;
                             for (int round = 0; status.ok(); ++round) {
                               status = ExchangePayloads(communicator, backend,
                                                         round);
                               ++exchanges;
                             }
                             return status;
                           }),
               absl::StatusCode::kCancelled);
    aborter.join();
  }
}

}  // namespace
}  // namespace recurve
