#include "engine/jobs/job_fit.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/jobs/job_execution_test_util.h"
#include "engine/schedule/memory_plan.h"
#include "engine/train/training_sizes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMaxParameters = 1 << 20;

class JobFitTest : public JobExecutionFixture {
 protected:
  v1::TrainSpec Spec(const char* text, const std::string& changes = "") {
    return jobs_->Get(Submit(text, changes))->spec;
  }
  // On one device that has so much for its jobs.
  absl::Status Check(const v1::TrainSpec& spec, int64_t bytes) {
    DevicePool pool(*ParseDevices(Budget(bytes)));
    return CheckJobFits(spec, pool, *datasets_, models_, evaluation_plans_,
                        kMaxParameters);
  }
  static std::string Budget(int64_t bytes) {
    return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
  }
  // The least budget that holds these sizes.
  static int64_t Needed(const v1::TrainSpec& spec, const TrainingSizes& sizes) {
    TrainingNeeds needs;
    needs.call = sizes.calls;
    needs.micro_batch_rows = spec.trainer().micro_batch_rows();
    needs.num_moments = 2;  // Adam, AdamW
    needs.accumulates = true;
    return TrainingPlan(*sizes.model, needs, 0, 1).total();
  }
  TrainingSizes Exact(const v1::TrainSpec& spec) {
    return *SizesOfTrainingRun(spec, *datasets_, models_, kMaxParameters);
  }
  // Larger than what is read before a job begins.
  void PutLargeText() {
    std::string text;
    while (text.size() <= kMaxBytesReadToFit) text.append("abcdefgh");
    Put("text", text);
  }
};

TEST_F(JobFitTest, TakesWhatJustFitsAndNotAByteMore) {
  for (const char* text : {kTextSpec, kSequencesSpec}) {
    const v1::TrainSpec spec = Spec(text);
    const int64_t needed = Needed(spec, Exact(spec));
    EXPECT_TRUE(Check(spec, needed).ok()) << Check(spec, needed);
    EXPECT_TRUE(absl::IsResourceExhausted(Check(spec, needed - 1)));
  }
}

TEST_F(JobFitTest, EvaluationsHaveTheirPlaceBeside) {
  evaluation_plans_ = [](const Model&, const Dataset&) {
    return std::vector<MemoryPlan>{{.activations = 9000},
                                   {.activations = 7000}};
  };
  const v1::TrainSpec spec = Spec(kTextSpec);
  const int64_t needed = Needed(spec, Exact(spec)) + 7000;
  EXPECT_TRUE(Check(spec, needed).ok()) << Check(spec, needed);
  EXPECT_TRUE(absl::IsResourceExhausted(Check(spec, needed - 1)));
}

TEST_F(JobFitTest, WhatItSuggestsTrains) {
  v1::TrainSpec spec = Spec(kTextSpec,
                            "loader { batch_size: 20 unroll: 6 } "
                            "trainer { micro_batch_rows: 1024 }");
  const absl::Status refused = Check(spec, 30000);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  const std::string message(refused.message());
  EXPECT_THAT(message,
              AllOf(StartsWith("training needs "), HasSubstr("activations"),
                    HasSubstr("gradients"), HasSubstr("budget of devices/0")));
  const std::string before =
      "the largest trainer.micro_batch_rows that fits is ";
  ASSERT_THAT(message, HasSubstr(before));
  int64_t rows = 0;
  ASSERT_TRUE(absl::SimpleAtoi(
      message.substr(message.find(before) + before.size()), &rows));
  spec.mutable_trainer()->set_micro_batch_rows(rows + 1);
  EXPECT_FALSE(Check(spec, 30000).ok());
  spec.mutable_trainer()->set_micro_batch_rows(rows);
  EXPECT_TRUE(Check(spec, 30000).ok());
  const Job job =
      Run(Submit(kTextSpec, absl::StrCat("loader { batch_size: 20 unroll: 6 } "
                                         "trainer { micro_batch_rows: ",
                                         rows, " }")),
          Budget(30000));
  EXPECT_EQ(job.state, JobState::kSucceeded) << job.cause;
}

// Also where training would not even fit without the evaluations.
TEST_F(JobFitTest, WhatItSuggestsHoldsBesideEvaluations) {
  constexpr int64_t kBytes = 30000;
  evaluation_plans_ = [](const Model&, const Dataset&) {
    return std::vector<MemoryPlan>{{.activations = 6000},
                                   {.activations = 4000}};
  };
  v1::TrainSpec spec = Spec(kTextSpec,
                            "loader { batch_size: 20 unroll: 6 } "
                            "trainer { micro_batch_rows: 1024 }");
  const std::string message(Check(spec, kBytes).message());
  const std::string before =
      "the largest trainer.micro_batch_rows that fits is ";
  ASSERT_THAT(message, HasSubstr(before));
  int64_t rows = 0;
  ASSERT_TRUE(absl::SimpleAtoi(
      message.substr(message.find(before) + before.size()), &rows));
  spec.mutable_trainer()->set_micro_batch_rows(rows);
  EXPECT_TRUE(Check(spec, kBytes).ok()) << rows << ": " << Check(spec, kBytes);
  spec.mutable_trainer()->set_micro_batch_rows(rows + 1);
  EXPECT_FALSE(Check(spec, kBytes).ok());
}

TEST_F(JobFitTest, WhatIsWrongOtherwiseIsForTheJobToFind) {
  EXPECT_TRUE(
      Check(Spec(kTextSpec, "data { dataset: 'datasets/none' }"), 1 << 20)
          .ok());
  EXPECT_TRUE(Check(Spec(kTextSpec, "held_out_characters: 1000000"), 1).ok());
  v1::TrainSpec from_none = Spec(kTextSpec);
  from_none.clear_config();
  EXPECT_TRUE(Check(from_none, 1).ok());
}

TEST_F(JobFitTest, LargeTextsAreRefusedByTheirSize) {
  PutLargeText();
  const v1::TrainSpec spec = Spec(kTextSpec);
  const TrainingSizes least = *LeastSizes(spec, kMaxBytesReadToFit, models_);
  const int64_t needed = Needed(spec, least);
  EXPECT_TRUE(Check(spec, needed).ok());
  const absl::Status refused = Check(spec, needed - 1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("by the size of the data alone"));
}

TEST_F(JobFitTest, DataThatAreNotReadAreRefusedForTheModelAlone) {
  v1::TrainSpec spec = Spec(kSequencesSpec, "data { server_path: 'lines' }");
  EXPECT_TRUE(Check(spec, 10000).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Check(spec, 1000)));
}

// The least that any data of these many bytes can need is never more than what
// some data do need.
TEST_F(JobFitTest, LeastSizesNeedNoMoreThanTheDataDo) {
  for (const char* piece : {"abcdefg ", "\u00e4b", "\U0001F600"}) {
    for (const int count : {30, 61, 200}) {
      std::string text;
      for (int i = 0; i < count; ++i) text.append(piece);
      Put("text", text);
      for (const int unroll : {1, 5, 7, 50}) {
        for (const int rows : {1, 8, 16, 100}) {
          const v1::TrainSpec spec =
              Spec(kTextSpec,
                   absl::StrCat("loader { unroll: ", unroll,
                                " } trainer { micro_batch_rows: ", rows, " }"));
          const TrainingSizes least =
              *LeastSizes(spec, static_cast<int64_t>(text.size()), models_);
          EXPECT_LE(Needed(spec, least), Needed(spec, Exact(spec)))
              << piece << " " << count << " " << unroll << " " << rows;
        }
      }
    }
  }
  const v1::TrainSpec sequences = Spec(kSequencesSpec);
  EXPECT_LE(Needed(sequences, *LeastSizes(sequences, 1000, models_)),
            Needed(sequences, Exact(sequences)));
}

}  // namespace
}  // namespace recurve
