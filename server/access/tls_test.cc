#include "server/access/tls.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"
#include "server/access/test_certificates.h"

namespace recurve::server {
namespace {

class TlsTest : public testing::Test {
 protected:
  TlsTest() { std::filesystem::create_directories(folder_); }
  ~TlsTest() override {
    if (server_ != nullptr) server_->Shutdown();
    std::filesystem::remove_all(folder_);
  }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + name) << text;
    return folder_ + name;
  }
  void Use(const TestCertificate& made) {
    paths_.certificate = Write("certificate", made.certificate);
    paths_.key = Write("key", made.key);
  }

  void Start() {
    credentials_ = TlsCredentials(paths_, [this](const absl::Status& what) {
      warnings_.emplace_back(what.message());
    });
    ASSERT_TRUE(credentials_.ok()) << credentials_.status();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", *credentials_, &port_);
    builder.RegisterCallbackGenericService(&service_);  // one it must have
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    ASSERT_NE(port_, 0);
  }

  // A connection of its own that trusts `authority`.
  std::shared_ptr<grpc::Channel> Connect(const TestCertificate& authority,
                                         const TestCertificate& client = {}) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = authority.certificate;
    options.pem_cert_chain = client.certificate;
    options.pem_private_key = client.key;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(absl::StrCat("localhost:", port_),
                                     grpc::SslCredentials(options), arguments);
  }

  // Of a call to the health service.
  static grpc::Status Call(grpc::Channel& channel) {
    const grpc::internal::RpcMethod method(
        "/grpc.health.v1.Health/Check", nullptr,
        grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(4)));
    const grpc::Slice empty;
    const grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    return grpc::internal::BlockingUnaryCall(&channel, method, &context,
                                             request, &response);
  }
  bool Trusts(const TestCertificate& authority,
              const TestCertificate& client = {}) {
    return Call(*Connect(authority, client)).ok();
  }

  std::string ErrorOf() const {
    const auto status = ReadTlsFiles(paths_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  const std::string folder_ = testing::TempDir() + "/tls_test/";
  const TestCertificate authority_ = MakeAuthority("first");
  const TestCertificate other_ = MakeAuthority("second");
  TlsPaths paths_;
  std::vector<std::string> warnings_;
  int port_ = 0;
  grpc::CallbackGenericService service_;
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(TlsTest, ServesWhoTrustsItsAuthority) {
  Use(MakeCertificate("server", authority_));
  Start();
  EXPECT_TRUE(Trusts(authority_));
  EXPECT_FALSE(Trusts(other_));
}

TEST_F(TlsTest, NewConnectionsGetANewCertificateAndOldOnesGoOn) {
  Use(MakeCertificate("server", authority_));
  Start();
  const auto old = Connect(authority_);
  EXPECT_TRUE(Call(*old).ok());
  Use(MakeCertificate("server", other_));
  EXPECT_TRUE(Trusts(other_));
  EXPECT_FALSE(Trusts(authority_));
  EXPECT_TRUE(Call(*old).ok());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TlsTest, FilesThatAreNoGoodAreReportedOnceAndChangeNothing) {
  Use(MakeCertificate("server", authority_));
  Start();
  Write("key", MakeCertificate("server", authority_).key);
  EXPECT_TRUE(Trusts(authority_));
  EXPECT_TRUE(Trusts(authority_));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("is not the key of the certificate"),
            std::string::npos)
      << warnings_[0];
  Use(MakeCertificate("server", other_));
  EXPECT_TRUE(Trusts(other_));
}

TEST_F(TlsTest, WithAnAuthorityForClientsTheyMustShowACertificateOfIt) {
  Use(MakeCertificate("server", authority_));
  paths_.client_ca = Write("client_ca", other_.certificate);
  Start();
  EXPECT_TRUE(Trusts(authority_, MakeCertificate("robot", other_)));
  EXPECT_FALSE(Trusts(authority_, MakeCertificate("robot", authority_)));
  EXPECT_FALSE(Trusts(authority_));
  // The authority changes, too.
  Write("client_ca", authority_.certificate);
  EXPECT_TRUE(Trusts(authority_, MakeCertificate("robot", authority_)));
  EXPECT_FALSE(Trusts(authority_, MakeCertificate("robot", other_)));
}

TEST_F(TlsTest, SaysWhichFileIsWrong) {
  const TestCertificate made = MakeCertificate("server", authority_);
  Use(made);
  EXPECT_TRUE(ReadTlsFiles(paths_).ok());
  paths_.certificate = folder_ + "absent";
  EXPECT_NE(ErrorOf().find("--tls_certificate: "), std::string::npos);
  EXPECT_NE(ErrorOf().find(paths_.certificate), std::string::npos);
  paths_.certificate = Write("certificate", made.key);
  EXPECT_EQ(ErrorOf(), absl::StrCat("--tls_certificate: ", paths_.certificate,
                                    " has no PEM certificate in it"));
  Use(made);
  Write("key", "-----BEGIN PRIVATE KEY-----\nnone\n");
  EXPECT_EQ(ErrorOf().find(absl::StrCat("--tls_key: ", paths_.key, " has no ")),
            0u);
  Write("key", MakeCertificate("server", authority_).key);
  EXPECT_EQ(ErrorOf(), absl::StrCat("--tls_key: ", paths_.key,
                                    " is not the key of the certificate in ",
                                    paths_.certificate));
  Use(made);
  paths_.client_ca = Write("client_ca", "");
  EXPECT_EQ(ErrorOf(), absl::StrCat("--tls_client_ca: ", paths_.client_ca,
                                    " has no PEM certificate in it"));
}

}  // namespace
}  // namespace recurve::server
