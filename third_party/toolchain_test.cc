// The libraries from the system build, link and run together in one process.

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <omp.h>
#include <sqlite3.h>

#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "oneapi/dnnl/dnnl.hpp"
#include "third_party/testdata/echo.grpc.pb.h"
#include "third_party/toolchain_simd.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ToolchainTest, OneDnnMultiplies) {
  const std::vector<float> a = {1, 2, 3, 4};
  const std::vector<float> b = {1, 0, 1, 1};
  std::vector<float> c(4);
  ASSERT_EQ(dnnl::sgemm('N', 'N', 2, 2, 2, 1.0f, a.data(), 2, b.data(), 2, 0.0f,
                        c.data(), 2),
            dnnl::status::success);
  EXPECT_THAT(c, ElementsAre(3, 2, 7, 4));
}

TEST(ToolchainTest, HighwayVectorsReachTheTail) {
  std::vector<float> values(37);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * i;
  const std::vector<float> x = values;
  ExpInPlace(values.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], std::exp(x[i]), 1e-6f * std::exp(x[i])) << i;
  }
}

TEST(ToolchainTest, OpenMpRunsATeam) {
  std::vector<int> ran(2);
#pragma omp parallel num_threads(2)
  ran[omp_get_thread_num()] = omp_get_num_threads();
  EXPECT_THAT(ran, ElementsAre(2, 2));
}

TEST(ToolchainTest, CompilerDoesNotContract) {
  // Fused multiply-add would keep the 2^-60 that the product alone rounds away.
  volatile double x = 1.0 + std::ldexp(1.0, -30);
  EXPECT_EQ(x * x - (1.0 + std::ldexp(1.0, -29)), 0.0);
}

TEST(ToolchainTest, SqliteAndJsonAnswer) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, "CREATE TABLE t (x)", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  EXPECT_EQ(nlohmann::json::parse("[1, 2]").size(), 2u);
}

class EchoService final : public toolchain::Echo::CallbackService {
  grpc::ServerUnaryReactor* Send(grpc::CallbackServerContext* context,
                                 const toolchain::EchoRequest* request,
                                 toolchain::Note* reply) override {
    reply->set_text(absl::StrCat("echo: ", request->note().text()));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

TEST(ToolchainTest, GrpcCallGoesThere) {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  EchoService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);

  const auto stub = toolchain::Echo::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  toolchain::EchoRequest request;
  request.mutable_note()->set_text("hello");
  toolchain::Note reply;
  const grpc::Status status = stub->Send(&context, request, &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.text(), "echo: hello");
}

TEST(ToolchainTest, AbslStatusPrints) {
  EXPECT_THAT(absl::NotFoundError("no such model").ToString(),
              HasSubstr("no such model"));
}

// Fails under --config=tsan if ThreadSanitizer does not understand absl::Mutex.
TEST(ToolchainTest, MutexConditionHandsOver) {
  absl::Mutex mutex;
  std::vector<int> queue;
  std::thread producer([&] {
    for (int i = 0; i < 1000; ++i) {
      absl::MutexLock lock(&mutex);
      queue.push_back(i);
    }
  });
  const auto filled = [&] { return !queue.empty(); };
  for (size_t taken = 0; taken < 1000;) {
    absl::MutexLock lock(&mutex, absl::Condition(&filled));
    taken += queue.size();
    queue.clear();
  }
  producer.join();
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace recurve
