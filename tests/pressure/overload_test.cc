// Three times as many requests as the server may hold: those that are accepted
// are answered, right and in time; the rest are refused at once and told when
// to come back.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"
#include "tests/pressure/refusal.h"
#include "tests/pressure/test_server.h"

namespace recurve::pressure {
namespace {

using faults::kPatience;

constexpr int kMaxEnqueued = 16;
constexpr int kTimes = 3;
constexpr int kRows = 4000;  // of a request: some time's work
constexpr const char* kModel = "models/m";

class OverloadTest : public testing::Test {
 protected:
  OverloadTest()
      : server_("cpu:1,cpu:1",
                {absl::StrCat("--max_enqueued=", kMaxEnqueued)}) {
    server_.CreateModel("m", TokenModel(192), 1);
  }

  struct Call {
    grpc::ClientContext context;
    v1::PredictResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PredictResponse>>
        reader;
  };

  // All sent before any is answered, and waited for.
  std::vector<std::unique_ptr<Call>> SendAtOnce(int count) {
    v1::PredictRequest request = PredictionOf(kModel, tokens_);
    request.clear_want_logits();
    request.set_want_class(true);
    grpc::CompletionQueue queue;
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(std::make_unique<Call>());
      Call& call = *calls.back();
      call.context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
      call.reader = server_.connection().inference().AsyncPredict(
          &call.context, request, &queue);
      call.reader->Finish(&call.response, &call.status, &call);
    }
    void* tag = nullptr;
    bool ok = false;
    for (int i = 0; i < count; ++i) EXPECT_TRUE(queue.Next(&tag, &ok));
    return calls;
  }

  // Classes of an undisturbed prediction.
  std::vector<int32_t> Expected() {
    const auto calls = SendAtOnce(1);
    EXPECT_TRUE(calls[0]->status.ok()) << calls[0]->status.error_message();
    return {calls[0]->response.classes().begin(),
            calls[0]->response.classes().end()};
  }

  const std::vector<int32_t> tokens_ = std::vector<int32_t>(kRows, 3);
  TestServer server_;
};

TEST_F(OverloadTest, ExcessIsRefusedWithAHintAndTheRestIsAnswered) {
  const std::vector<int32_t> expected = Expected();
  int64_t answered = 0, refused = 0;
  for (int round = 0; round < 3; ++round) {
    for (const auto& call : SendAtOnce(kTimes * kMaxEnqueued)) {
      if (call->status.ok()) {
        ++answered;
        EXPECT_EQ(std::vector<int32_t>(call->response.classes().begin(),
                                       call->response.classes().end()),
                  expected);
        continue;
      }
      ++refused;
      EXPECT_EQ(call->status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
          << call->status.error_message();
      EXPECT_GT(RetryDelay(call->status).value_or(absl::ZeroDuration()),
                absl::ZeroDuration())
          << call->status.error_message();
    }
  }
  EXPECT_GE(answered, 3 * kMaxEnqueued);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace recurve::pressure
