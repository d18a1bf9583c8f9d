#include "server/access/gate.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace recurve::server {
namespace {

using absl::StatusCode;

constexpr char kPredict[] = "/recurve.v1.Inference/Predict";
constexpr char kDelete[] = "/recurve.v1.Models/DeleteModel";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";

std::unique_ptr<TokenFile> AdasToken() {
  const std::string path = testing::TempDir() + "/gate_tokens";
  std::ofstream(path) << "ada 0123456789abcdef read,predict";
  auto file = TokenFile::Open(path, absl::UnixEpoch(), nullptr);
  EXPECT_TRUE(file.ok()) << file.status();
  std::filesystem::remove(path);
  return *std::move(file);
}

CallFacts From(absl::string_view method,
               std::optional<absl::string_view> authorization) {
  CallFacts caller;
  caller.method = method;
  caller.authorization = authorization;
  caller.peer = "ipv4:192.0.2.7:61234";
  return caller;
}

Admission Enter(Gate& gate, const CallFacts& caller) {
  return gate.Enter(caller, absl::UnixEpoch());
}

void ExpectRefused(const Admission& admission, StatusCode code,
                   const std::string& word) {
  EXPECT_EQ(admission.status.code(), code) << admission.status;
  EXPECT_NE(admission.status.message().find(word), absl::string_view::npos)
      << admission.status;
  EXPECT_FALSE(admission.counted);
}

TEST(GateTest, WithTokensLetsInWhoHasTheScope) {
  Gate gate(AdasToken(), 10);
  for (const char* how : {"Bearer 0123456789abcdef", "bearer 0123456789abcdef",
                          "BEARER  0123456789abcdef "}) {
    const Admission ada = Enter(gate, From(kPredict, how));
    EXPECT_TRUE(ada.status.ok()) << ada.status;
    EXPECT_EQ(ada.client, "token:ada");
  }
}

TEST(GateTest, WithTokensRefusesWhoHasNone) {
  Gate gate(AdasToken(), 10);
  const auto refused = [&](std::optional<absl::string_view> authorization,
                           const std::string& word) {
    ExpectRefused(Enter(gate, From(kPredict, authorization)),
                  StatusCode::kUnauthenticated, word);
  };
  refused(std::nullopt, "authorization: Bearer TOKEN");
  refused("", "is not `Bearer TOKEN`");
  refused("Basic 0123456789abcdef", "is not `Bearer TOKEN`");
  refused("0123456789abcdef", "is not `Bearer TOKEN`");
  refused("Bearer ", "not one of this server's");
  refused("Bearer 0123456789abcdeg", "not one of this server's");
}

TEST(GateTest, SaysWhichScopeIsMissing) {
  Gate gate(AdasToken(), 10);
  ExpectRefused(Enter(gate, From(kDelete, "Bearer 0123456789abcdef")),
                StatusCode::kPermissionDenied,
                "needs the scope admin; the token ada has read,predict");
}

TEST(GateTest, OpenMethodsNeedNoToken) {
  Gate gate(AdasToken(), 10);
  EXPECT_TRUE(Enter(gate, From(kHealth, std::nullopt)).status.ok());
  EXPECT_TRUE(Enter(gate, From(kHealth, "Bearer no")).status.ok());
}

TEST(GateTest, WithoutTokensLetsInEverybody) {
  Gate gate(nullptr, 10);
  EXPECT_TRUE(Enter(gate, From(kDelete, std::nullopt)).status.ok());
}

TEST(GateTest, AMethodThatTheTableLacksIsForNobody) {
  Gate gate(nullptr, 10);
  ExpectRefused(Enter(gate, From("/recurve.v1.Models/Frobnicate", "")),
                StatusCode::kPermissionDenied, "Frobnicate has no scope");
}

TEST(GateTest, ClosedItLetsInWhoAsksForHealthAlone) {
  Gate gate(AdasToken(), 10);
  gate.Close();
  ExpectRefused(Enter(gate, From(kPredict, "Bearer 0123456789abcdef")),
                StatusCode::kUnavailable, "shutting down");
  EXPECT_TRUE(Enter(gate, From(kHealth, std::nullopt)).status.ok());
}

TEST(GateTest, LimitsTheCallsOfAClientAndNotOfOthers) {
  Gate gate(nullptr, 2);
  CallFacts caller = From(kPredict, std::nullopt);
  const Admission first = Enter(gate, caller);
  caller.peer = "ipv4:192.0.2.7:1";  // another connection
  const Admission second = Enter(gate, caller);
  EXPECT_EQ(first.client, "ipv4:192.0.2.7");
  EXPECT_EQ(second.client, first.client);
  const Admission third = Enter(gate, caller);
  ExpectRefused(third, StatusCode::kResourceExhausted,
                "ipv4:192.0.2.7 has 2 calls under way, the limit is 2");
  caller.peer = "ipv6:%5B::1%5D:7";
  EXPECT_EQ(Enter(gate, caller).client, "ipv6:%5B::1%5D");
  gate.Leave(third);  // was not counted
  caller.peer = "ipv4:192.0.2.7:2";
  EXPECT_FALSE(Enter(gate, caller).status.ok());
  gate.Leave(first);
  EXPECT_TRUE(Enter(gate, caller).status.ok());
}

TEST(GateTest, ATokenIsOneClientWhereverItComesFrom) {
  Gate gate(AdasToken(), 1);
  CallFacts caller = From(kPredict, "Bearer 0123456789abcdef");
  EXPECT_TRUE(Enter(gate, caller).status.ok());
  caller.peer = "ipv4:203.0.113.1:1";
  EXPECT_FALSE(Enter(gate, caller).status.ok());
}

TEST(GateTest, ACertificateNamesItsClient) {
  Gate gate(nullptr, 10);
  CallFacts caller = From(kPredict, std::nullopt);
  caller.certificate = "robot";
  EXPECT_EQ(Enter(gate, caller).client, "certificate:robot");
}

TEST(ClientCallsTest, ForgetsClientsThatHaveNoCalls) {
  ClientCalls calls(2);
  EXPECT_TRUE(calls.Begin("a").ok());
  EXPECT_TRUE(calls.Begin("b").ok());
  EXPECT_EQ(calls.clients(), 2);
  calls.End("a");
  EXPECT_EQ(calls.clients(), 1);
}

}  // namespace
}  // namespace recurve::server
