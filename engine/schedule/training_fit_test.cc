#include "engine/schedule/training_fit.h"

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/test_models.h"
#include "engine/schedule/format_bytes.h"
#include "engine/schedule/partition.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of every device here.
const int64_t kWorkspace = WorkspacePlan(1).total();

std::shared_ptr<const Model> LanguageModel() {
  return MakeModel(R"(
    input { token_embedding { vocabulary_size: 64 embedding_size: 32 } }
    blocks { sru { hidden_size: 32 num_layers: 2 } }
    output { linear { size: 64 } }
    loss { kind: CROSS_ENTROPY })");
}

TrainingNeeds TextNeeds(int64_t batch_size, int64_t unroll,
                        int64_t micro_batch_rows) {
  TrainingNeeds needs;
  needs.call = {batch_size * unroll, batch_size, unroll, unroll};
  needs.micro_batch_rows = micro_batch_rows;
  needs.num_moments = 2;
  return needs;
}

struct Cut {
  BatchShape largest;  // of rows and sequences each
  int64_t count;
};
Cut CutReally(const std::vector<int64_t>& lengths, int64_t micro_batch_rows) {
  std::vector<int64_t> cu_seqlens = {0};
  for (const int64_t length : lengths) {
    cu_seqlens.push_back(cu_seqlens.back() + length);
  }
  const auto ranges = PartitionMicroBatches(cu_seqlens, micro_batch_rows);
  Cut cut = {{}, static_cast<int64_t>(ranges.size())};
  for (const Range range : ranges) {
    cut.largest.rows = std::max(
        cut.largest.rows, cu_seqlens[range.end] - cu_seqlens[range.begin]);
    cut.largest.sequences = std::max(cut.largest.sequences, range.size());
  }
  return cut;
}

TEST(CallBounds, NoCallExceedsThem) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> lengths(1 + random() % 30);
    for (int64_t& length : lengths) length = random() % 40;
    CallBounds call;
    call.sequences = lengths.size();
    for (const int64_t length : lengths) call.rows += length;
    call.longest_sequence = *std::max_element(lengths.begin(), lengths.end());
    call.shortest_sequence = *std::min_element(lengths.begin(), lengths.end());
    const int64_t rows = 1 + random() % 100;
    const Cut cut = CutReally(lengths, rows);
    const BatchShape bound = LargestMicroBatch(call, rows);
    ASSERT_LE(cut.largest.rows, bound.rows);
    ASSERT_LE(cut.largest.sequences, bound.sequences);
    ASSERT_LE(cut.count, MostMicroBatches(call, rows));
  }
}

TEST(CallBounds, AreExactForEqualLengths) {
  for (int64_t length = 1; length <= 12; ++length) {
    for (int64_t sequences = 1; sequences <= 12; ++sequences) {
      for (int64_t rows = 1; rows <= 150; ++rows) {
        const CallBounds call = {length * sequences, sequences, length, length};
        const Cut cut =
            CutReally(std::vector<int64_t>(sequences, length), rows);
        const BatchShape bound = LargestMicroBatch(call, rows);
        ASSERT_EQ(cut.largest.rows, bound.rows);
        ASSERT_EQ(cut.largest.sequences, bound.sequences);
        ASSERT_EQ(cut.count, MostMicroBatches(call, rows));
      }
    }
  }
}

TEST(FittingDevices, AllWithoutBudgets) {
  EXPECT_THAT(*FittingDevices(*LanguageModel(), TextNeeds(8, 32, 64),
                              {{"devices/0"}, {"devices/1"}}),
              ElementsAre(0, 1));
}

// The members fit, and so would no device that is left out beside them.
TEST(FittingDevices, AreThoseThatHoldTheirPart) {
  const auto model = LanguageModel();
  const TrainingNeeds needs = TextNeeds(64, 32, 256);
  const int64_t alone = TrainingPlan(*model, needs, 0, 1).total();
  std::mt19937 random(2);
  int some = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<DeviceBudget> devices(1 + random() % 4);
    for (DeviceBudget& device : devices) {
      device.workspace = kWorkspace;
      device.bytes = kWorkspace + alone / 2 + random() % (2 * alone);
    }
    const auto members = FittingDevices(*model, needs, devices);
    const auto holds = [&](int device, int rank, int world_size) {
      return TrainingPlan(*model, needs, rank, world_size).total() +
                 kWorkspace <=
             devices[device].bytes;
    };
    if (!members.ok()) {
      for (size_t d = 0; d < devices.size(); ++d) ASSERT_FALSE(holds(d, 0, 1));
      continue;
    }
    const int world_size = members->size();
    for (int rank = 0; rank < world_size; ++rank) {
      ASSERT_TRUE(holds((*members)[rank], rank, world_size));
    }
    some += world_size < static_cast<int>(devices.size());
  }
  EXPECT_GT(some, 20);
}

TEST(FittingDevices, TheAdviceFitsAndOneMoreDoesNot) {
  const auto model = LanguageModel();
  const TrainingNeeds needs = TextNeeds(64, 8, 512);
  for (const int64_t percent : {40, 50, 70, 90, 99}) {
    const int64_t bytes =
        TrainingPlan(*model, needs, 0, 1).total() * percent / 100 + kWorkspace;
    const std::vector<DeviceBudget> devices = {
        {"devices/0", bytes / 2, kWorkspace}, {"devices/1", bytes, kWorkspace}};
    const std::string message(
        FittingDevices(*model, needs, devices).status().message());
    const std::string phrase = "trainer.micro_batch_rows that fits is ";
    const size_t at = message.find(phrase);
    ASSERT_NE(at, std::string::npos) << message;
    TrainingNeeds advised = needs;
    advised.micro_batch_rows = std::stoll(message.substr(at + phrase.size()));
    EXPECT_TRUE(FittingDevices(*model, advised, devices).ok()) << message;
    ++advised.micro_batch_rows;
    EXPECT_FALSE(FittingDevices(*model, advised, devices).ok()) << message;
  }
}

// The largest values found by trying all.
TEST(FittingDevices, TheAdviceIsTheLargestValueThatFits) {
  const auto model = LanguageModel();
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    TrainingNeeds needs = TextNeeds(1 + random() % 20, 1 + random() % 20, 100);
    needs.call.shortest_sequence -= random() % 2;
    const int64_t total = TrainingPlan(*model, needs, 0, 1).total();
    const std::vector<DeviceBudget> devices = {
        {"devices/0",
         kWorkspace + total / 2 + static_cast<int64_t>(random() % (total / 2)),
         kWorkspace}};
    const absl::Status status = FittingDevices(*model, needs, devices).status();
    ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
    TrainingNeeds other = needs;
    const auto fits = [&] {
      return FittingDevices(*model, other, devices).ok();
    };
    for (--other.micro_batch_rows; other.micro_batch_rows > 0 && !fits();) {
      --other.micro_batch_rows;
    }
    if (other.micro_batch_rows > 0) {
      EXPECT_THAT(
          std::string(status.message()),
          EndsWith(absl::StrCat("rows that fits is ", other.micro_batch_rows)));
      continue;
    }
    other.micro_batch_rows = 1;
    while (--other.call.longest_sequence > 0) {
      other.call.shortest_sequence =
          std::min(needs.call.shortest_sequence, other.call.longest_sequence);
      if (fits()) break;
    }
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(other.call.longest_sequence == 0
                      ? "no sequence fits"
                      : absl::StrCat("that fits has ",
                                     other.call.longest_sequence, " row")));
  }
}

TEST(FittingDevices, RefusalsHaveTheTermsTheBudgetsAndAdvice) {
  const auto model = LanguageModel();
  const std::vector<DeviceBudget> devices = {
      {"devices/0", 3 << 20, kWorkspace}, {"devices/1", 4 << 20, kWorkspace}};
  const auto expect = [&](int64_t batch_size, int64_t unroll,
                          const char* advice) {
    const TrainingNeeds needs = TextNeeds(batch_size, unroll, 65536);
    const MemoryPlan plan =
        TrainingPlan(*model, needs, 0, 1) + WorkspacePlan(1);
    const auto fitting = FittingDevices(*model, needs, devices);
    EXPECT_TRUE(absl::IsResourceExhausted(fitting.status()));
    EXPECT_THAT(std::string(fitting.status().message()),
                StartsWith(absl::StrCat(
                    "training needs ", FormatBytes(plan.total()),
                    " on a device: activations ", FormatBytes(plan.activations),
                    ", workspace 2.3 MiB, optimizer 82.8 KiB; budget of "
                    "devices/0 3.0 MiB, budget of devices/1 4.0 MiB; ",
                    advice)));
  };
  expect(512, 32, "the largest trainer.micro_batch_rows that fits is ");
  expect(
      1, 4096,
      "no trainer.micro_batch_rows fits; the longest sequence that fits has ");
}

}  // namespace
}  // namespace recurve
