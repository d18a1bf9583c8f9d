#include "server/access/exposure.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve::server {
namespace {

absl::Status Check(const std::string& text) {
  ServerConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  return CheckExposure(config);
}
void ExpectRefused(const std::string& text, const std::string& word) {
  const absl::Status status = Check(text);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_NE(status.message().find(word), absl::string_view::npos) << status;
}

constexpr char kTls[] = " tls_certificate: 'c' tls_key: 'k' ";
constexpr char kOpen[] = "listen: '0.0.0.0:1' ";

TEST(ExposureTest, LoopbackNeedsNothing) {
  for (const char* listen :
       {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1"}) {
    EXPECT_TRUE(Check(std::string("listen: '") + listen + "'").ok()) << listen;
  }
  EXPECT_TRUE(Check("").ok());
}

TEST(ExposureTest, BeyondItNeedsTlsAndToKnowItsClients) {
  for (const char* listen : {"0.0.0.0:1", "[::]:1", "192.0.2.7:1", "host:1",
                             "127.example.com:1", "*:1"}) {
    ExpectRefused(std::string("listen: '") + listen + "'", "--allow_insecure");
  }
  ExpectRefused(kOpen, "--tls_certificate and --tls_key, and --tokens_file");
  ExpectRefused(std::string(kOpen) + kTls, "--allow_insecure");
  ExpectRefused(std::string(kOpen) + "tokens_file: 't'", "--allow_insecure");
  EXPECT_TRUE(Check(std::string(kOpen) + kTls + "tokens_file: 't'").ok());
  EXPECT_TRUE(Check(std::string(kOpen) + kTls + "tls_client_ca: 'a'").ok());
}

TEST(ExposureTest, OrToBeTold) {
  EXPECT_TRUE(Check(std::string(kOpen) + "allow_insecure: true").ok());
  EXPECT_TRUE(Check(std::string(kOpen) +
                    "allow_insecure: true metrics_listen: '0.0.0.0:2'")
                  .ok());
}

TEST(ExposureTest, MetricsHaveTheSameRule) {
  EXPECT_TRUE(Check("metrics_listen: '127.0.0.1:0'").ok());
  ExpectRefused("metrics_listen: '0.0.0.0:9090'", "--metrics_listen");
  ExpectRefused(std::string(kOpen) + kTls +
                    "tokens_file: 't' metrics_listen: '0.0.0.0:9090'",
                "neither TLS nor tokens");
  ExpectRefused("metrics_listen: '9090'", "is not HOST:PORT");
}

TEST(ExposureTest, FlagsThatNeedOthers) {
  ExpectRefused("tls_key: 'k'", "one needs the other");
  ExpectRefused("tls_certificate: 'c'", "one needs the other");
  ExpectRefused("tls_client_ca: 'a'", "needs --tls_certificate");
  ExpectRefused("listen: '50051'", "--listen: \"50051\" is not HOST:PORT");
}

}  // namespace
}  // namespace recurve::server
