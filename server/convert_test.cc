#include "server/convert.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace recurve::server {
namespace {

TEST(ConvertTest, FloatsKeepTheirBits) {
  const std::vector<float> floats = {0.0f, -0.0f, 1.5f,
                                     std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::denorm_min()};
  const std::string bytes = FloatsToBytes(floats);
  EXPECT_EQ(bytes.size(), 20u);
  EXPECT_EQ(bytes.substr(8, 4), std::string("\x00\x00\xc0\x3f", 4));
  EXPECT_EQ(FloatsToBytes(*FloatsFromBytes(bytes, "f")), bytes);
  EXPECT_TRUE(FloatsFromBytes("", "f")->empty());
}

TEST(ConvertTest, HalfANumberIsRefusedByField) {
  for (size_t size : {1, 2, 3, 5, 1027}) {
    const absl::Status status =
        FloatsFromBytes(std::string(size, '\0'), "batch.features").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().substr(0, 16), "batch.features: ");
  }
}

TEST(ConvertTest, BatchesComeBack) {
  SequenceBatch batch;
  batch.cu_seqlens = {0, 2, 3};
  batch.tokens = {1, 2, 3};
  const auto tokens = FromWire(ToWire(batch));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->cu_seqlens, batch.cu_seqlens);
  EXPECT_EQ(tokens->tokens, batch.tokens);

  batch.tokens.clear();
  batch.features = {1, 2, 3};
  EXPECT_EQ(FromWire(ToWire(batch))->features, batch.features);

  Targets targets;
  targets.classes = {1, 2};
  targets.weights = {0.5f, 1};
  targets.values = {3};
  const auto read = FromWire(ToWire(targets));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->classes, targets.classes);
  EXPECT_EQ(read->weights, targets.weights);
  EXPECT_EQ(read->values, targets.values);
}

TEST(ConvertTest, BatchesThatSayNothingOrTooMuchAreRefused) {
  v1::SequenceBatch wire;
  EXPECT_EQ(FromWire(wire).status().code(), absl::StatusCode::kInvalidArgument);
  wire.add_cu_seqlens(0);
  EXPECT_TRUE(FromWire(wire).ok());  // the engine has a word on it
  wire.add_tokens(1);
  wire.set_features("1234");
  EXPECT_EQ(FromWire(wire).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConvertTest, TimesBeforeAndAfterTheEpoch) {
  EXPECT_EQ(ToWire(absl::FromUnixNanos(1'500'000'000)).seconds(), 1);
  EXPECT_EQ(ToWire(absl::FromUnixNanos(1'500'000'000)).nanos(), 500'000'000);
  EXPECT_EQ(ToWire(absl::FromUnixNanos(-1)).seconds(), -1);
  EXPECT_EQ(ToWire(absl::FromUnixNanos(-1)).nanos(), 999'999'999);
}

TEST(ConvertTest, JobsAndTheirEvents) {
  Job job;
  job.id = "j1";
  job.state = JobState::kRunning;
  job.start_time = absl::FromUnixSeconds(5);
  EXPECT_EQ(ToWire(job).name(), "jobs/j1");
  EXPECT_EQ(ToWire(job).state(), v1::Job::RUNNING);
  EXPECT_TRUE(ToWire(job).has_start_time());
  EXPECT_FALSE(ToWire(job).has_end_time());
  EXPECT_FALSE(ToWire(job).has_held_out_loss());
  for (JobState state : kJobStates) {
    job.state = state;
    EXPECT_EQ(v1::Job::State_Name(ToWire(job).state()),
              std::string(JobStateName(state)));
  }
  EXPECT_EQ(ToWire(JobEvent{3, absl::Now(), job}).state().name(), "jobs/j1");
  EXPECT_EQ(ToWire(JobEvent{4, absl::Now(), JobWarning{"hm"}}).warning(), "hm");
  JobMetrics metrics;
  metrics.step = 9;
  const v1::JobEvent event = ToWire(JobEvent{5, absl::Now(), metrics});
  EXPECT_EQ(event.metrics().step(), 9);
  EXPECT_EQ(event.number(), 5);
}

TEST(ConvertTest, TopKIsOneMessageARow) {
  Prediction prediction;
  prediction.version = std::make_shared<ModelVersion>();
  prediction.rows = 2;
  prediction.top_classes = {3, 1, 0, 2};
  prediction.top_probabilities = {0.5f, 0.25f, 0.75f, 0.125f};
  const v1::PredictResponse wire = ToWire(prediction);
  ASSERT_EQ(wire.top_k_size(), 2);
  EXPECT_EQ(wire.top_k(1).classes(0), 0);
  EXPECT_EQ(wire.top_k(1).probabilities(1), 0.125f);
}

}  // namespace
}  // namespace recurve::server
