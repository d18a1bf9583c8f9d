// Every method of every service asks the gate, and asks for the scope that the
// table of server/access/scopes.cc says.
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/google/rpc/status.pb.h"
#include "server/access/scopes.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using google::protobuf::DescriptorPool;
using grpc::StatusCode;

constexpr Scope kScopes[] = {Scope::kRead, Scope::kPredict, Scope::kTrain,
                             Scope::kAdmin};

std::string TokenOf(Scope scope) {
  return absl::StrCat("0123456789abcdef-", ScopeName(scope));
}

class AccessTest : public ServiceTest {
 protected:
  // A token for each scope.
  AccessTest() {
    std::ofstream file(directory + "/tokens");
    for (const Scope scope : kScopes) {
      file << ScopeName(scope) << " " << TokenOf(scope) << " "
           << ScopeName(scope) << "\n";
    }
    file.close();
    config.set_tokens_file(directory + "/tokens");
    Start();
  }

  // Sends `bytes` as the only message of a call.
  grpc::Status RawCall(const std::string& name, const std::string& token,
                       const std::string& bytes, std::string* answer) {
    const grpc::internal::RpcMethod method(
        name.c_str(), nullptr, grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    SetDeadline(context);
    if (!token.empty()) {
      context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    }
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    const grpc::Status status = grpc::internal::BlockingUnaryCall(
        channel.get(), method, &context, request, &response);
    grpc::Slice whole;
    if (status.ok() && response.DumpToSingleSlice(&whole).ok()) {
      answer->assign(whole.begin(), whole.end());
    }
    return status;
  }
  StatusCode CodeOf(const std::string& method, const std::string& token) {
    std::string ignored;
    return RawCall(method, token, "", &ignored).error_code();
  }

  // What reflection lists, as "/package.Service/Method".
  std::vector<std::string> Methods() {
    std::vector<std::string> methods;
    const DescriptorPool& pool = *DescriptorPool::generated_pool();
    for (const std::string& name : Services()) {
      const auto* const service = pool.FindServiceByName(name);
      EXPECT_NE(service, nullptr) << name;
      for (int i = 0; service != nullptr && i < service->method_count(); ++i) {
        methods.push_back(
            absl::StrCat("/", name, "/", service->method(i)->name()));
      }
    }
    return methods;
  }

 private:
  std::vector<std::string> Services() {
    std::string bytes;
    ExpectOk(RawCall(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "",
        std::string("\x3a\x00", 2), &bytes));  // list_services: ""
    const auto* const type =
        DescriptorPool::generated_pool()->FindMessageTypeByName(
            "grpc.reflection.v1alpha.ServerReflectionResponse");
    const std::unique_ptr<google::protobuf::Message> response(
        google::protobuf::MessageFactory::generated_factory()
            ->GetPrototype(type)
            ->New());
    EXPECT_TRUE(response->ParseFromString(bytes));
    const auto& list = response->GetReflection()->GetMessage(
        *response, type->FindFieldByName("list_services_response"));
    const auto* const field = list.GetDescriptor()->FindFieldByName("service");
    std::vector<std::string> names;
    for (int i = 0; i < list.GetReflection()->FieldSize(list, field); ++i) {
      const auto& service =
          list.GetReflection()->GetRepeatedMessage(list, field, i);
      names.push_back(service.GetReflection()->GetString(
          service, service.GetDescriptor()->FindFieldByName("name")));
    }
    return names;
  }
};

TEST_F(AccessTest, EveryMethodHasAScope) {
  const std::vector<std::string> methods = Methods();
  EXPECT_GE(methods.size(), 40u);
  for (const std::string& method : methods) {
    EXPECT_TRUE(ScopeOf(method).has_value()) << method;
  }
}

TEST_F(AccessTest, EveryMethodRefusesWhoHasNoToken) {
  for (const std::string& method : Methods()) {
    if (ScopeOf(method) == Scope::kOpen) continue;
    const StatusCode code = CodeOf(method, "");
    EXPECT_EQ(code, StatusCode::UNAUTHENTICATED) << method;
    EXPECT_EQ(CodeOf(method, "0123456789abcdef"), StatusCode::UNAUTHENTICATED)
        << method;
  }
}

TEST_F(AccessTest, EveryMethodAsksForItsScope) {
  for (const std::string& method : Methods()) {
    const auto needed = ScopeOf(method);
    if (!needed.has_value() || needed == Scope::kOpen) continue;
    for (const Scope scope : kScopes) {
      const StatusCode code = CodeOf(method, TokenOf(scope));
      EXPECT_NE(code, StatusCode::UNAUTHENTICATED) << method;
      EXPECT_EQ(code == StatusCode::PERMISSION_DENIED, scope != *needed)
          << method << " with " << ScopeName(scope);
    }
  }
}

TEST_F(AccessTest, ARefusedCallChangesNothing) {
  v1::CreateModelRequest request;
  request.set_model_id("lm");
  *request.mutable_config() = TokenConfig();
  v1::Model model;
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + TokenOf(Scope::kPredict));
  ExpectError(models->CreateModel(&context, request, &model),
              StatusCode::PERMISSION_DENIED, "needs the scope train");
  EXPECT_TRUE(FilesOnDisk().empty());
  v1::UploadDatasetRequest::Header header;
  header.set_size_bytes(3);
  v1::Dataset dataset;
  ExpectError(TryUpload(header, "abc", &dataset), StatusCode::UNAUTHENTICATED,
              "authorization");
  EXPECT_TRUE(FilesOnDisk().empty());
}

TEST_F(AccessTest, ATokenHasSoManyCallsAtOnce) {
  config.set_max_calls_per_client(1);
  Start();
  const std::string status =
      "/inference.GRPCInferenceService/"
      "SystemSharedMemoryStatus";
  grpc::ClientContext context;
  SetDeadline(context);
  context.AddMetadata("authorization", "Bearer " + TokenOf(Scope::kPredict));
  const auto stream = inference->PredictStream(&context);
  v1::PredictStreamResponse response;
  ASSERT_TRUE(stream->Write(v1::PredictRequest()));
  ASSERT_TRUE(stream->Read(&response));  // it is under way

  std::string ignored;
  const grpc::Status second =
      RawCall(status, TokenOf(Scope::kPredict), "", &ignored);
  ExpectError(second, StatusCode::RESOURCE_EXHAUSTED,
              "token:predict has 1 calls under way");
  google::rpc::Status details;
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(details.ParseFromString(second.error_details()));
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&retry));
  EXPECT_GT(retry.retry_delay().nanos(), 0);
  // Others are not in its way.
  EXPECT_EQ(CodeOf("/recurve.v1.Models/ListModels", TokenOf(Scope::kRead)),
            StatusCode::OK);

  stream->WritesDone();
  ExpectOk(stream->Finish());
  WaitUntil("the stream's place is free", [&] {
    return CodeOf(status, TokenOf(Scope::kPredict)) !=
           StatusCode::RESOURCE_EXHAUSTED;
  });
}

TEST_F(AccessTest, ChangesOfTheFileCountWhileTheServerRuns) {
  const std::string list = "/recurve.v1.Models/ListModels";
  EXPECT_EQ(CodeOf(list, "another-0123456789abcdef"),
            StatusCode::UNAUTHENTICATED);
  std::ofstream(directory + "/tokens")
      << "another another-0123456789abcdef read";
  WaitUntil("the new token is known", [&] {
    return CodeOf(list, "another-0123456789abcdef") == StatusCode::OK;
  });
  EXPECT_EQ(CodeOf(list, TokenOf(Scope::kRead)), StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessTest, AServerDoesNotStartWithTokensThatItCannotRead) {
  ServerConfig bad = config;
  bad.set_data_dir(directory + "/other");
  bad.set_tokens_file(directory + "/absent");
  const absl::Status status = Server::Start(bad).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("--tokens_file"), absl::string_view::npos);
}

}  // namespace
}  // namespace recurve::server
