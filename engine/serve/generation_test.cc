#include "engine/serve/generation.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/base/file.h"
#include "engine/data/vocabulary.h"
#include "engine/model/config.h"
#include "engine/model/executor_test_util.h"
#include "engine/model/library_import.h"
#include "engine/model/safetensors.h"
#include "engine/schedule/device_spec.h"
#include "engine/serve/batch_runner.h"
#include "engine/serve/session_rows.h"
#include "engine/serve/token_text.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

// --- Models ---

std::string Path(const std::string& name) {
  return "tests/testdata/checkpoints/" + name;
}

std::string Read(const std::string& name) {
  return *ReadFile(Path(name), 1 << 20);
}

// A checkpoint that was trained with the library, of a cell.
ModelHandle Checkpoint(const std::string& cell) {
  const auto model =
      *Model::Create(*ParseModelConfig(Read(cell + "_charlm.textproto")));
  const Safetensors file =
      *Safetensors::Open(Path(cell + "_charlm.safetensors"));
  const Vocabulary vocabulary = *Vocabulary::FromJson(Read("vocab.json"));
  return ModelVersion::InMemory(
      model, ImportLibrary(*model, file.tensors(), {})->parameters, cell,
      vocabulary.tokens());
}

ModelHandle Version(const char* config) {
  const TestExecutor e(config);
  return ModelVersion::InMemory(*Model::Create(e.model().config()),
                                e.parameters(), "small");
}

constexpr char kWithoutText[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { linear { size: 17 } }
  loss { kind: CROSS_ENTROPY })";

// --- Reading ---

// What a generation made, its pieces in their order.
struct Reader {
  void Wake() {
    absl::MutexLock lock(&mutex);
    woken = true;
  }
  // The end's status.
  absl::Status ReadAll() {
    for (;;) {
      GeneratedPiece piece;
      const auto step = generation->Next(&piece);
      if (!step.ok()) return step.status();
      if (*step == Generation::Step::kEnd) return absl::OkStatus();
      if (*step == Generation::Step::kPiece) {
        pieces.push_back(std::move(piece));
        continue;
      }
      absl::MutexLock lock(&mutex);
      mutex.Await(absl::Condition(&woken));
      woken = false;
    }
  }
  std::vector<int32_t> Tokens(int64_t sample = 0) const {
    std::vector<int32_t> tokens;
    for (const GeneratedPiece& piece : pieces) {
      if (piece.sample != sample) continue;
      tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    return tokens;
  }
  std::string Text(int64_t sample = 0) const {
    std::string text;
    for (const GeneratedPiece& piece : pieces) {
      if (piece.sample == sample) text += piece.text;
    }
    return text;
  }
  FinishReason Finish(int64_t sample = 0) const {
    auto reason = FinishReason::kGoesOn;
    for (const GeneratedPiece& piece : pieces) {
      if (piece.sample == sample) reason = piece.finish_reason;
    }
    return reason;
  }

  absl::Mutex mutex;
  bool woken = false;
  std::shared_ptr<Generation> generation;
  std::vector<GeneratedPiece> pieces;
};

struct Fixture {
  explicit Fixture(const std::string& specs = "cpu:1", int64_t rows = 1024)
      : devices(*ParseDevices(specs)),
        runner(devices, {.max_batch_rows = rows}),
        batcher(runner, {}) {}

  std::unique_ptr<Reader> Start(GenerationRequest request) {
    EXPECT_TRUE(CheckGeneration(request, {}).ok())
        << CheckGeneration(request, {});
    auto reader = std::make_unique<Reader>();
    reader->generation = Generation::Start(
        batcher, [](const std::function<void()>& work) { work(); },
        std::move(request), [reader = reader.get()] { reader->Wake(); });
    return reader;
  }
  std::unique_ptr<Reader> Run(GenerationRequest request) {
    auto reader = Start(std::move(request));
    const absl::Status status = reader->ReadAll();
    EXPECT_TRUE(status.ok()) << status;
    return reader;
  }

  DevicePool devices;
  BatchRunner runner;
  Batcher batcher;
};

GenerationRequest Request(const ModelHandle& version, const std::string& prompt,
                          int64_t max_tokens) {
  GenerationRequest request;
  request.version = version;
  request.prompt = *TokensOf(*version, prompt);
  request.sample.max_tokens = max_tokens;
  return request;
}

// --- A slow implementation: all of the text so far anew for each token ---

class Slow {
 public:
  explicit Slow(const ModelHandle& version) : version_(version) {}

  std::vector<float> LastLogits(const std::vector<int32_t>& tokens) {
    BatchRun run;
    run.version = version_;
    run.batch.cu_seqlens = {0, static_cast<int64_t>(tokens.size())};
    run.batch.tokens = tokens;
    std::vector<float> logits;
    run.consume = [&](const ChunkRows& rows) {
      const float* const last = rows.output.row(rows.output.rows - 1);
      logits.assign(last, last + rows.output.cols);
      return absl::OkStatus();
    };
    EXPECT_TRUE(fixture_.runner.RunAndWait(std::move(run)).ok());
    return logits;
  }

  // The token at `uniform` of the distribution that the settings leave.
  static int32_t Draw(const std::vector<float>& logits,
                      const std::vector<int32_t>& before,
                      const SamplingOptions& options, double uniform) {
    std::vector<std::pair<double, int32_t>> order;  // likeliest first
    for (size_t i = 0; i < logits.size(); ++i) {
      double z = logits[i];
      if (std::count(before.begin(), before.end(), i) > 0) {
        z = z > 0 ? z / options.repetition_penalty
                  : z * options.repetition_penalty;
      }
      order.push_back({-z, static_cast<int32_t>(i)});
    }
    std::sort(order.begin(), order.end());
    if (options.temperature == 0) return order[0].second;
    if (options.top_k > 0) {
      order.resize(std::min<size_t>(options.top_k, order.size()));
    }
    const double best = order[0].first;
    double total = 0;
    for (auto& [z, token] : order) {
      z = std::exp((best - z) / options.temperature);
      total += z;
    }
    std::map<int32_t, double> kept;
    double sum = 0;
    for (const auto& [weight, token] : order) {
      if (sum >= options.top_p * total) break;
      kept[token] = weight;
      sum += weight;
    }
    double reached = 0;
    for (const auto& [token, weight] : kept) {
      reached += weight;
      if (reached > uniform * sum) return token;
    }
    return kept.rbegin()->first;
  }

  std::vector<int32_t> Generate(const GenerationRequest& request,
                                int64_t sample) {
    std::vector<int32_t> all = request.prompt;
    const SamplingOptions& sampling = request.sample.sampling;
    for (int64_t i = 0; i < request.sample.max_tokens; ++i) {
      all.push_back(Draw(LastLogits(all), all, sampling,
                         SamplingUniform(sampling.seed, sample, i)));
    }
    return {all.begin() + request.prompt.size(), all.end()};
  }

 private:
  const ModelHandle version_;
  Fixture fixture_;
};

// --- What is drawn ---

class CheckpointTest : public testing::TestWithParam<const char*> {
 protected:
  const ModelHandle version_ = Checkpoint(GetParam());
};

TEST_P(CheckpointTest, GreedyTextIsThatOfPredictingEachTokenFromAllBefore) {
  GenerationRequest request = Request(version_, "In the beginning ", 60);
  request.sample.sampling.temperature = 0;
  Slow slow(version_);
  const auto expected = slow.Generate(request, 0);
  const auto reader = Fixture().Run(request);
  EXPECT_EQ(reader->Tokens(), expected);
  std::string text;
  for (const int32_t token : expected) text += version_->vocabulary[token];
  EXPECT_EQ(reader->Text(), text);
  EXPECT_EQ(reader->Finish(), FinishReason::kLength);
  // In however small pieces the prompt went in.
  EXPECT_EQ(Fixture("cpu:1,cpu:1", 3).Run(request)->Tokens(), expected);
}

TEST_P(CheckpointTest, EverySettingDrawsWhatTheSlowImplementationDraws) {
  Slow slow(version_);
  Fixture fixture;
  for (const SamplingOptions& sampling :
       {SamplingOptions{.seed = 1}, SamplingOptions{.temperature = 0.5},
        SamplingOptions{.top_k = 3, .seed = 2},
        SamplingOptions{.top_p = 0.8, .seed = 3},
        SamplingOptions{.temperature = 0, .repetition_penalty = 1.3},
        SamplingOptions{.temperature = 1.5,
        .top_k = 20,
        .top_p = 0.95,
        .repetition_penalty = 1.2,
        .seed = 4}}) {
    GenerationRequest request = Request(version_, "And God said", 20);
    request.sample.sampling = sampling;
    request.num_samples = 3;
    const auto reader = fixture.Run(request);
    for (int64_t sample = 0; sample < 3; ++sample) {
      EXPECT_EQ(reader->Tokens(sample), slow.Generate(request, sample))
          << sampling.seed << " " << sample;
    }
  }
}

TEST_P(CheckpointTest, LogProbabilitiesAreTheModelsOwn) {
  GenerationRequest request = Request(version_, "the ", 5);
  request.sample.sampling = {.temperature = 0.3, .top_k = 2, .seed = 9};
  request.sample.top_log_probabilities = 4;
  const auto reader = Fixture().Run(request);
  Slow slow(version_);
  std::vector<int32_t> all = request.prompt;
  for (const GeneratedPiece& piece : reader->pieces) {
    const std::vector<float> logits = slow.LastLogits(all);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    const auto log_probability = [&](int32_t token) {
      return logits[token] - std::log(sum);
    };
    all.push_back(piece.tokens[0]);
    EXPECT_NEAR(piece.log_probabilities[0], log_probability(all.back()), 1e-5);
    ASSERT_EQ(piece.top[0].size(), 4u);
    EXPECT_EQ(piece.top[0][0].token,
              std::max_element(logits.begin(), logits.end()) - logits.begin());
    for (const TokenLogProbability& top : piece.top[0]) {
      EXPECT_NEAR(top.log_probability, log_probability(top.token), 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, CheckpointTest,
                         testing::Values("sru", "qrnn"));

TEST(GenerationTest, WhatRunsBesideItChangesNothing) {
  const ModelHandle version = Checkpoint("sru");
  GenerationRequest request = Request(version, "And the ", 40);
  request.sample.sampling.seed = 7;
  request.num_samples = 2;
  const auto alone = Fixture().Run(request);

  Fixture fixture("cpu:1,cpu:2");
  std::vector<std::unique_ptr<Reader>> others;
  for (int i = 0; i < 20; ++i) {
    GenerationRequest other =
        Request(version, std::string(1 + i * 7, 'a'), 30 + i);
    other.sample.sampling.seed = i;
    other.num_samples = 1 + i % 3;
    others.push_back(fixture.Start(other));
  }
  const auto among = fixture.Run(request);
  for (const auto& other : others) EXPECT_TRUE(other->ReadAll().ok());
  for (int64_t sample = 0; sample < 2; ++sample) {
    EXPECT_EQ(among->Tokens(sample), alone->Tokens(sample));
  }
  EXPECT_NE(alone->Tokens(0), alone->Tokens(1));
}

// --- Where it ends, and what is said of it ---

TEST(GenerationTest, AStopStringAcrossTokensEndsTheTextBeforeIt) {
  const ModelHandle version = Checkpoint("sru");
  GenerationRequest request = Request(version, "In the ", 50);
  request.sample.sampling.temperature = 0;
  Fixture fixture;
  const std::string text = fixture.Run(request)->Text();
  const std::string stop = text.substr(20, 4);
  request.sample.stops = {"never this", stop};
  const auto reader = fixture.Run(request);
  EXPECT_EQ(reader->Text(), text.substr(0, text.find(stop)));
  EXPECT_EQ(reader->Finish(), FinishReason::kStop);
  EXPECT_EQ(reader->Tokens().size(), text.find(stop) + stop.size());
}

TEST(GenerationTest, SamplesEndEachByItself) {
  const ModelHandle version = Checkpoint("sru");
  GenerationRequest request = Request(version, "In the ", 60);
  request.num_samples = 5;
  request.sample.stops = {" "};
  const auto reader = Fixture().Run(request);
  for (int64_t sample = 0; sample < 5; ++sample) {
    EXPECT_EQ(reader->Text(sample).find(' '), std::string::npos);
    EXPECT_EQ(reader->Finish(sample), FinishReason::kStop);
  }
}

TEST(GenerationTest, AnEchoBeginsEachSampleWithThePrompt) {
  const ModelHandle version = Checkpoint("sru");
  GenerationRequest request = Request(version, "In the ", 3);
  request.num_samples = 2;
  request.echo = true;
  const auto reader = Fixture().Run(request);
  for (int64_t sample = 0; sample < 2; ++sample) {
    const GeneratedPiece& piece = reader->pieces[sample];
    EXPECT_EQ(piece.sample, sample);
    EXPECT_EQ(piece.text, "In the ");
    EXPECT_EQ(piece.tokens, request.prompt);
    EXPECT_TRUE(piece.log_probabilities.empty());
    EXPECT_EQ(reader->Tokens(sample).size(), request.prompt.size() + 3);
  }
}

TEST(GenerationTest, AModelWithoutVocabularyGeneratesTokensAlone) {
  GenerationRequest request;
  request.version = Version(kWithoutText);
  request.prompt = {1, 2};
  request.sample.max_tokens = 4;
  const auto reader = Fixture().Run(request);
  EXPECT_EQ(reader->Tokens().size(), 4u);
  EXPECT_EQ(reader->Text(), "");
}

TEST(GenerationTest, LogitsThatAreNotFiniteAreTheModelsFault) {
  const TestExecutor e(kWithoutText);
  std::vector<float> parameters = e.parameters();
  parameters[e.model().parameters().Find("output.bias")->offset + 3] = INFINITY;
  GenerationRequest request;
  request.version = ModelVersion::InMemory(*Model::Create(e.model().config()),
                                           std::move(parameters), "overflown");
  request.prompt = {1, 2};
  request.sample.max_tokens = 4;
  Fixture fixture;
  const auto reader = fixture.Start(std::move(request));
  const absl::Status status = reader->ReadAll();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("token 3 is inf"), absl::string_view::npos)
      << status;
  EXPECT_TRUE(reader->Tokens().empty());
}

// --- A reader that is slow, or leaves ---

TEST(GenerationTest, NoMoreIsMadeThanTheReaderTakes) {
  const ModelHandle version = Checkpoint("sru");
  GenerationRequest request = Request(version, "In the ", 300);
  const auto expected = Fixture().Run(request)->Tokens();

  std::atomic<int64_t> steps = 0;
  Fixture fixture;
  auto reader = std::make_unique<Reader>();
  // 73 logits are drawn from at once, so steps are counted by their wake-ups.
  reader->generation = Generation::Start(
      fixture.batcher, [](const std::function<void()>& work) { work(); },
      request,
      [&] {
        ++steps;
        reader->Wake();
      });
  // Until it waits for the reader: nothing is in the device's queue any more.
  int64_t rows = 0;
  for (int quiet = 0; quiet < 100;) {
    absl::Notification done;
    fixture.devices.device(0).Enqueue(TaskClass::kServing,
                                      [&](Backend&) { done.Notify(); });
    done.WaitForNotification();
    const int64_t now = fixture.devices.device(0).stats().rows;
    quiet = now == rows ? quiet + 1 : 0;
    rows = now;
  }
  EXPECT_LE(rows, static_cast<int64_t>(request.prompt.size() +
                                       Generation::kMaxPieces));
  ASSERT_TRUE(reader->ReadAll().ok());
  EXPECT_EQ(reader->Tokens(), expected);
}

TEST(GenerationTest, NobodyIsWokenAfterStop) {
  const ModelHandle version = Checkpoint("sru");
  Fixture fixture;
  std::atomic<bool> stopped = false, woken_after = false;
  auto generation = Generation::Start(
      fixture.batcher, [](const std::function<void()>& work) { work(); },
      Request(version, "In the ", 1000), [&] { woken_after = stopped.load(); });
  GeneratedPiece piece;
  (void)generation->Next(&piece);
  generation->Stop();
  stopped = true;
  generation = nullptr;
  EXPECT_FALSE(woken_after);
}

TEST(GenerationTest, ADeadlineOrACancellationEndsIt) {
  const ModelHandle version = Checkpoint("sru");
  Fixture fixture;
  GenerationRequest late = Request(version, "In the ", 1000);
  late.control.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(fixture.Start(late)->ReadAll().code(),
            absl::StatusCode::kDeadlineExceeded);

  GenerationRequest cancelled = Request(version, "In the ", 100000);
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  cancelled.control.cancelled = flag;
  const auto reader = fixture.Start(cancelled);
  GeneratedPiece piece;
  while (true) {
    const auto step = reader->generation->Next(&piece);
    ASSERT_TRUE(step.ok());
    if (*step == Generation::Step::kPiece) break;
  }
  *flag = true;
  EXPECT_EQ(reader->ReadAll().code(), absl::StatusCode::kCancelled);
}

// --- Sessions ---

class SessionGenerationTest : public testing::Test {
 protected:
  // Waits for the end of the one before: a device may hold it for a moment.
  SessionStore::Lease Lease(bool start) {
    SessionUse use;
    use.id = "s";
    use.start = start;
    use.version = version_;
    SessionStore::Lease lease;
    absl::Notification granted;
    store_.Acquire(use, [&](absl::StatusOr<SessionStore::Lease> given) {
      EXPECT_TRUE(given.ok()) << given.status();
      if (given.ok()) lease = *std::move(given);
      granted.Notify();
    });
    granted.WaitForNotification();
    return lease;
  }
  GenerationRequest OnSession(bool start, const std::string& prompt,
                              int64_t max_tokens) {
    GenerationRequest request = Request(version_, prompt, max_tokens);
    request.sample.sampling.temperature = 0;
    request.session = Lease(start);
    return request;
  }

  const ModelHandle version_ = Checkpoint("sru");
  SessionStore store_{SessionStore::Options()};
  Fixture fixture_;
};

TEST_F(SessionGenerationTest, GoesOnAsOneSequence) {
  const auto first = fixture_.Run(OnSession(true, "In the ", 10));
  EXPECT_EQ(first->pieces.back().position, 17);
  EXPECT_EQ(store_.Get("s")->position, 17);
  first->generation = nullptr;
  const auto second = fixture_.Run(OnSession(false, " and ", 10));
  EXPECT_EQ(second->pieces.back().position, 32);

  GenerationRequest whole =
      Request(version_, "In the " + first->Text() + " and ", 10);
  whole.sample.sampling.temperature = 0;
  EXPECT_EQ(second->Tokens(), fixture_.Run(whole)->Tokens());
}

TEST_F(SessionGenerationTest, ASessionGetsNoMoreRowsThanCanBeCounted) {
  ASSERT_TRUE(store_.Create({"s", version_, kMaxSessionRows - 5}).ok());
  EXPECT_TRUE(CheckGeneration(OnSession(false, "abc", 2), {}).ok());
  EXPECT_EQ(CheckGeneration(OnSession(false, "abc", 3), {}).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(SessionGenerationTest, OneThatFailsLeavesTheSessionAsItWas) {
  const auto first = fixture_.Run(OnSession(true, "In the ", 10));
  first->generation = nullptr;
  GenerationRequest cancelled = OnSession(false, "x", 100000);
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  cancelled.control.cancelled = flag;
  auto reader = fixture_.Start(std::move(cancelled));
  GeneratedPiece piece;
  while (*reader->generation->Next(&piece) != Generation::Step::kPiece) {
  }
  *flag = true;
  EXPECT_FALSE(reader->ReadAll().ok());
  reader = nullptr;
  EXPECT_EQ(store_.Get("s")->position, 17);
  const auto second = fixture_.Run(OnSession(false, " and ", 10));
  GenerationRequest whole =
      Request(version_, "In the " + first->Text() + " and ", 10);
  whole.sample.sampling.temperature = 0;
  EXPECT_EQ(second->Tokens(), fixture_.Run(whole)->Tokens());
}

// --- Refusals ---

TEST(CheckGenerationTest, SaysWhatIsWrong) {
  const ModelHandle version = Version(kWithoutText);
  const auto check = [](const GenerationRequest& request, const char* field,
                        absl::StatusCode code) {
    GenerationLimits limits;
    limits.max_rows = 100;
    const absl::Status status = CheckGeneration(request, limits);
    EXPECT_EQ(status.code(), code) << field << ": " << status;
    EXPECT_NE(status.message().find(field), absl::string_view::npos) << status;
  };
  using Code = absl::StatusCode;
  GenerationRequest good;
  good.version = version;
  good.prompt = {1};
  good.sample.max_tokens = 1;
  EXPECT_TRUE(CheckGeneration(good, {}).ok());

  GenerationRequest bad = good;
  bad.prompt = {};
  check(bad, "prompt", Code::kInvalidArgument);
  bad.prompt = {17};
  check(bad, "17", Code::kInvalidArgument);
  bad.prompt.assign(100, 1);
  check(bad, "prompt", Code::kResourceExhausted);
  bad = good;
  bad.sample.max_tokens = 0;
  check(bad, "max_tokens", Code::kInvalidArgument);
  bad.sample.max_tokens = 101;
  check(bad, "max_tokens", Code::kInvalidArgument);
  bad = good;
  bad.num_samples = 0;
  check(bad, "n:", Code::kInvalidArgument);
  bad.num_samples = 65;
  check(bad, "n:", Code::kInvalidArgument);
  bad = good;
  bad.sample.sampling.top_p = 2;
  check(bad, "top_p", Code::kInvalidArgument);
  bad = good;
  bad.sample.top_log_probabilities = 101;
  check(bad, "top_log_probabilities", Code::kInvalidArgument);
  bad = good;
  bad.sample.stops = {"a"};
  check(bad, "stop", Code::kFailedPrecondition);
  bad.sample.stops = {""};
  check(bad, "stop", Code::kInvalidArgument);
  bad.sample.stops.assign(17, "a");
  check(bad, "stop", Code::kInvalidArgument);
}

TEST(CheckGenerationTest, TheModelMustBeALanguageModel) {
  for (const char* config : {
           R"(input { features { size: 4 } }
              blocks { sru { hidden_size: 4 } }
              output { linear { size: 3 } }
              loss { kind: MEAN_SQUARED_ERROR })",
           R"(input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
              blocks { sru { hidden_size: 4 } }
              output { linear { size: 3 } }
              loss { kind: CROSS_ENTROPY })",
           R"(input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
              blocks { sru { hidden_size: 4 } }
              output { pooling: POOLING_LAST linear { size: 5 } }
              loss { kind: CROSS_ENTROPY })",
           R"(input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
              blocks { sru { hidden_size: 4 bidirectional: true } }
              output { linear { size: 5 } }
              loss { kind: CROSS_ENTROPY })"}) {
    GenerationRequest request;
    request.version = Version(config);
    request.prompt = {1};
    EXPECT_EQ(CheckGeneration(request, {}).code(),
              absl::StatusCode::kFailedPrecondition)
        << config;
  }
}

}  // namespace
}  // namespace recurve
