#include "engine/serve/predictor.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "engine/model/executor_test_util.h"
#include "engine/schedule/device_spec.h"
#include "engine/serve/registry.h"
#include "engine/serve/test_models.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

ModelHandle Version(const char* config) {
  const TestExecutor e(config);
  return ModelVersion::InMemory(*Model::Create(e.model().config()),
                                e.parameters());
}

OutputSelection Everything(const Model& model) {
  OutputSelection selection;
  selection.logits = selection.hidden = true;
  selection.state = !model.bidirectional();
  if (model.config().loss().kind() == v1::Loss::CROSS_ENTROPY) {
    selection.probabilities = selection.classes = true;
    selection.top_k = 2;
  }
  return selection;
}

PredictRequest Request(ModelHandle version, SequenceBatch batch) {
  PredictRequest request;
  request.version = std::move(version);
  request.batch = std::move(batch);
  request.selection = Everything(*request.version->model);
  return request;
}

// Devices with a predictor on them.
struct Fixture {
  explicit Fixture(const std::string& specs, int64_t max_batch_rows = 1024,
                   Predictor::Options options = {})
      : Fixture(specs, WithRows(max_batch_rows), options) {}
  Fixture(const std::string& specs, const Batcher::Options& batching,
          Predictor::Options options = {})
      : devices(*ParseDevices(specs)),
        runner(devices, {}),
        batcher(runner, batching),
        predictor(batcher, options) {}

  static Batcher::Options WithRows(int64_t max_batch_rows) {
    Batcher::Options options;
    options.max_batch_rows = max_batch_rows;
    return options;
  }

  absl::StatusOr<Prediction> Predict(PredictRequest request) {
    absl::StatusOr<Prediction> result;
    absl::Notification finished;
    predictor.Predict(std::move(request), [&](auto prediction) {
      result = std::move(prediction);
      finished.Notify();
    });
    finished.WaitForNotification();
    return result;
  }

  DevicePool devices;
  BatchRunner runner;
  Batcher batcher;
  Predictor predictor;
};

void ExpectSameBits(const Prediction& a, const Prediction& b) {
  EXPECT_EQ(a.logits, b.logits);
  EXPECT_EQ(a.probabilities, b.probabilities);
  EXPECT_EQ(a.top_classes, b.top_classes);
  EXPECT_EQ(a.top_probabilities, b.top_probabilities);
  EXPECT_EQ(a.classes, b.classes);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.state, b.state);
}

TEST(PredictorTest, NeitherTheCutNorTheDevicesChangeABit) {
  for (const char* config :
       {kSru, kQrnn, kForgetful, kLast, kMax, kBidirectionalMean}) {
    const ModelHandle version = Version(config);
    const SequenceBatch batch =
        RandomBatch(*version->model, {5, 1, 40, 8, 3, 3, 17}, 1);
    const Prediction whole = *Fixture("cpu:1").Predict(Request(version, batch));
    for (const char* specs : {"cpu:1", "cpu:2", "cpu:1,cpu:1,cpu:1"}) {
      for (int64_t rows : {1, 3, 7, 16}) {
        SCOPED_TRACE(testing::Message() << config << specs << " " << rows);
        const auto cut = Fixture(specs, rows).Predict(Request(version, batch));
        ASSERT_TRUE(cut.ok()) << cut.status();
        ExpectSameBits(*cut, whole);
      }
    }
  }
}

TEST(PredictorTest, MatchesTheExecutor) {
  TestExecutor e(kSru);
  const SequenceBatch batch = RandomBatch(e.model(), {5, 1, 8}, 1);
  ForwardArgs args;
  args.batch = &batch;
  const Prediction prediction = *Fixture("cpu:1").Predict(
      Request(ModelVersion::InMemory(*Model::Create(e.model().config()),
                                     e.parameters()),
              batch));
  EXPECT_EQ(prediction.logits, e.Output(args));
  EXPECT_EQ(prediction.rows, 14);
  EXPECT_EQ(prediction.columns, 7);
  for (int64_t r = 0; r < prediction.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 7; ++c) sum += prediction.probabilities[r * 7 + c];
    EXPECT_NEAR(sum, 1.0, 1e-6);
    EXPECT_EQ(prediction.classes[r], prediction.top_classes[r * 2]);
    EXPECT_GE(prediction.top_probabilities[r * 2],
              prediction.top_probabilities[r * 2 + 1]);
  }
}

TEST(PredictorTest, StateCarriesASequenceOverTwoCalls) {
  for (const char* config : {kSru, kQrnn}) {
    const ModelHandle version = Version(config);
    const Model& model = *version->model;
    const SequenceBatch batch = RandomBatch(model, {9}, 1);
    Fixture fixture("cpu:1", 4);
    const Prediction whole = *fixture.Predict(Request(version, batch));
    SequenceBatch head{{0, 4}, {}, {}}, tail{{0, 5}, {}, {}};
    if (model.takes_tokens()) {
      head.tokens = {batch.tokens.begin(), batch.tokens.begin() + 4};
      tail.tokens = {batch.tokens.begin() + 4, batch.tokens.end()};
    } else {
      const auto middle = batch.features.begin() + 4 * model.feature_size();
      head.features = {batch.features.begin(), middle};
      tail.features = {middle, batch.features.end()};
    }
    const Prediction first = *fixture.Predict(Request(version, head));
    PredictRequest request = Request(version, tail);
    request.state = first.state;
    const Prediction second = *fixture.Predict(std::move(request));
    std::vector<float> logits = first.logits;
    logits.insert(logits.end(), second.logits.begin(), second.logits.end());
    EXPECT_EQ(logits, whole.logits);
    EXPECT_EQ(second.state, whole.state);
  }
}

TEST(PredictorTest, ANewCallForgetsWhatTheModelDoesNotSave) {
  const ModelHandle version = Version(kForgetful);
  const Model& model = *version->model;
  const SequenceBatch batch = RandomBatch(model, {6}, 1);
  Fixture fixture("cpu:1");
  PredictRequest request = Request(version, batch);
  request.state.assign(model.state_size(), 0.5f);
  PredictRequest forgotten = request;
  const int64_t offset = model.layers()[1].x_previous_offset;
  ASSERT_GE(offset, 0);
  for (int64_t i = 0; i < model.layers()[1].input_size(); ++i) {
    forgotten.state[offset + i] = 0;
  }
  ExpectSameBits(*fixture.Predict(request), *fixture.Predict(forgotten));
}

absl::StatusCode CodeOf(Fixture& fixture, PredictRequest request,
                        const std::string& word) {
  const auto prediction = fixture.Predict(std::move(request));
  EXPECT_NE(prediction.status().message().find(word), std::string::npos)
      << prediction.status();
  return prediction.status().code();
}

TEST(PredictorTest, RefusesWhatIsWrongAndSaysWhy) {
  using absl::StatusCode;
  Fixture fixture("cpu:1");
  const ModelHandle sru = Version(kSru);
  const SequenceBatch batch = RandomBatch(*sru->model, {3, 2}, 1);
  const auto request = [&] { return Request(sru, batch); };

  PredictRequest token = request();
  token.batch.tokens[4] = 17;
  EXPECT_EQ(CodeOf(fixture, token, "17"), StatusCode::kInvalidArgument);
  PredictRequest empty = request();
  empty.batch = {};
  EXPECT_EQ(CodeOf(fixture, empty, ""), StatusCode::kInvalidArgument);
  PredictRequest zero_length = request();
  zero_length.batch.cu_seqlens = {0, 3, 3, 5};
  EXPECT_EQ(CodeOf(fixture, zero_length, "1"), StatusCode::kInvalidArgument);
  PredictRequest state = request();
  state.state.resize(7);
  EXPECT_EQ(CodeOf(fixture, state, "48 (2 sequences of 24)"),
            StatusCode::kInvalidArgument);
  state.state.assign(48, 0);
  state.state[28] = NAN;
  EXPECT_EQ(CodeOf(fixture, state, "number 4 of sequence 1"),
            StatusCode::kInvalidArgument);
  PredictRequest top_k = request();
  top_k.selection.top_k = 8;
  EXPECT_EQ(CodeOf(fixture, top_k, "top_k: is 8"),
            StatusCode::kInvalidArgument);

  const ModelHandle both = Version(kBidirectional);
  PredictRequest streaming = Request(both, RandomBatch(*both->model, {3}, 1));
  streaming.selection.state = true;
  EXPECT_EQ(CodeOf(fixture, streaming, "bidirectional"),
            StatusCode::kFailedPrecondition);
  const ModelHandle regression = Version(kQrnn);
  PredictRequest classes =
      Request(regression, RandomBatch(*regression->model, {3}, 1));
  classes.selection.classes = true;
  EXPECT_EQ(CodeOf(fixture, classes, "not classes"),
            StatusCode::kFailedPrecondition);
}

TEST(PredictorTest, LimitsAreKeptAndNamed) {
  const ModelHandle version = Version(kSru);
  const SequenceBatch batch = RandomBatch(*version->model, {30}, 1);
  Fixture rows("cpu:1", 1024, {.max_rows = 29});
  EXPECT_EQ(CodeOf(rows, Request(version, batch), "29"),
            absl::StatusCode::kResourceExhausted);
  Fixture bytes("cpu:1", 1024, {.max_result_bytes = 100});
  EXPECT_EQ(CodeOf(bytes, Request(version, batch), "100"),
            absl::StatusCode::kResourceExhausted);
  Batcher::Options few_bytes;
  few_bytes.max_enqueued_bytes = 100;
  Fixture enqueued("cpu:1", few_bytes);
  EXPECT_EQ(CodeOf(enqueued, Request(version, batch), "100"),
            absl::StatusCode::kResourceExhausted);
}

TEST(PredictorTest, AFullQueueRefusesAtOnce) {
  const ModelHandle version = Version(kSru);
  const SequenceBatch batch = RandomBatch(*version->model, {3}, 1);
  Batcher::Options one;
  one.max_enqueued = 1;
  Fixture fixture("cpu:1", one);
  absl::Notification release, finished;
  fixture.devices.device(0).Enqueue(
      TaskClass::kServing, [&](Backend&) { release.WaitForNotification(); });
  fixture.predictor.Predict(Request(version, batch), [&](auto prediction) {
    EXPECT_TRUE(prediction.ok());
    finished.Notify();
  });
  EXPECT_EQ(
      CodeOf(fixture, Request(version, batch), "1 requests are under way"),
      absl::StatusCode::kResourceExhausted);
  release.Notify();
  finished.WaitForNotification();
  EXPECT_TRUE(fixture.Predict(Request(version, batch)).ok());
}

TEST(PredictorTest, CancelledAndExpiredRequestsStopAtTheNextChunk) {
  const ModelHandle version = Version(kSru);
  const SequenceBatch batch = RandomBatch(*version->model, {50}, 1);
  Fixture fixture("cpu:1", 1);
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  PredictRequest request = Request(version, batch);
  request.control.cancelled = cancelled;

  absl::StatusOr<Prediction> result;
  absl::Notification begun, release, finished;
  fixture.devices.device(0).Enqueue(TaskClass::kServing, [&](Backend&) {
    begun.Notify();
    release.WaitForNotification();
  });
  begun.WaitForNotification();
  fixture.predictor.Predict(request, [&](auto prediction) {
    result = std::move(prediction);
    finished.Notify();
  });
  *cancelled = true;
  release.Notify();
  finished.WaitForNotification();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(fixture.devices.device(0).stats().rows, 0);

  request = Request(version, batch);
  request.control.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(CodeOf(fixture, request, "deadline"),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(PredictorTest, LogitsThatAreNotFiniteHaveNoClasses) {
  const TestExecutor e(kSru);
  std::vector<float> parameters = e.parameters();
  const Parameter& bias = *e.model().parameters().Find("output.bias");
  parameters[bias.offset] = INFINITY;
  const ModelHandle version =
      ModelVersion::InMemory(*Model::Create(e.model().config()), parameters);
  Fixture fixture("cpu:1");
  PredictRequest request = Request(version, RandomBatch(e.model(), {2}, 1));
  EXPECT_EQ(CodeOf(fixture, request, "row 0"),
            absl::StatusCode::kFailedPrecondition);
  request.selection = {.logits = true};
  EXPECT_TRUE(fixture.Predict(request).ok());
}

// The weights are on disk only, and the executor must last as long as the run.
TEST(PredictorTest, ARunUnderWayOutlivesItsModelsDeletion) {
  const TestExecutor e(kSru);
  auto registry =
      *Registry::Open(testing::TempDir() + "/deleted_under_way_registry");
  VersionContents contents;
  contents.model = *Model::Create(e.model().config());
  contents.parameters = e.parameters();
  contents.source = "created";
  BatchRun run;
  run.version = *registry->Create("lm", std::move(contents));
  run.batch = RandomBatch(*run.version->model, {50}, 1);
  DevicePool devices(*ParseDevices("cpu:1"));
  BatchRunner runner(devices, {.max_batch_rows = 1});
  registry->OnDelete(
      [&](const ModelVersion& version) { runner.Drop(version); });
  int passes = 0;
  run.consume = [&](const ChunkRows&) {
    return ++passes == 1 ? registry->Delete("models/lm") : absl::OkStatus();
  };
  EXPECT_TRUE(runner.RunAndWait(run).ok());
  EXPECT_EQ(passes, 50);
  // Afterwards nothing of it is kept.
  EXPECT_EQ(runner.RunAndWait(run).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace recurve
