// Messages of clients that are none.
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "proto/inference/inference.grpc.pb.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;

// A call of any method, of bytes.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel,
          const std::string& method)
      : stub_(channel) {
    SetDeadline(context_);
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    EXPECT_TRUE(Done());
  }

  void Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    Done();  // false if the call has ended
  }
  void WritesDone() {
    call_->WritesDone(nullptr);
    Done();
  }
  template <typename Message>
  bool Read(Message* message) {
    grpc::ByteBuffer bytes;
    call_->Read(&bytes, nullptr);
    return Done() &&
           grpc::SerializationTraits<Message>::Deserialize(&bytes, message)
               .ok();
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    EXPECT_TRUE(Done());
    return status;
  }

 private:
  bool Done() {
    void* tag;
    bool ok = false;
    EXPECT_TRUE(queue_.Next(&tag, &ok));
    return ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

// Of any type.
const std::vector<std::string>& Unparsable() {
  static const auto* const bytes = new std::vector<std::string>{
      "\xff",                           // a tag that goes on
      std::string("\0\0", 2),           // a field of number 0
      std::string("\xa0\x06\x01\0", 4)  // a good field that is not known, first
  };
  return *bytes;
}

class UnparsableTest : public ServiceTest {
 protected:
  UnparsableTest() { CreateModel("lm", TokenConfig()); }

  static v1::PredictRequest Request() {
    v1::PredictRequest request;
    request.set_model("models/lm");
    *request.mutable_batch() = Tokens({{0, 1}});
    return request;
  }
  void ExpectItServes() {
    v1::PredictResponse response;
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Predict, Request(), &response));
  }
};

TEST_F(UnparsableTest, APredictStreamEndsWhenWhatCameBeforeIsAnswered) {
  std::vector<std::string> all = Unparsable();
  all.push_back("\x0a\x02\xff\xfe");  // a name that is not UTF-8
  for (const std::string& bytes : all) {
    RawCall call(channel, "/recurve.v1.Inference/PredictStream");
    call.Write(Request().SerializeAsString());
    call.Write(Request().SerializeAsString());
    call.Write(bytes);
    call.Write(Request().SerializeAsString());
    call.WritesDone();
    v1::PredictStreamResponse response;
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(call.Read(&response));
      EXPECT_TRUE(response.has_response()) << response.DebugString();
    }
    EXPECT_FALSE(call.Read(&response));
    ExpectError(call.Finish(), StatusCode::INVALID_ARGUMENT,
                "recurve.v1.PredictRequest");
  }
  ExpectItServes();
}

TEST_F(UnparsableTest, AModelStreamInferEndsWithItsStatus) {
  for (const std::string& bytes : Unparsable()) {
    RawCall call(channel, "/inference.GRPCInferenceService/ModelStreamInfer");
    call.Write(bytes);
    call.WritesDone();
    ::inference::ModelStreamInferResponse response;
    EXPECT_FALSE(call.Read(&response));
    ExpectError(call.Finish(), StatusCode::INVALID_ARGUMENT,
                "inference.ModelInferRequest");
  }
}

TEST_F(UnparsableTest, AnUploadLeavesNothingBehind) {
  v1::UploadDatasetRequest header, chunk;
  header.mutable_header()->set_dataset_id("d");
  header.mutable_header()->set_size_bytes(3);
  chunk.set_chunk("abc");
  for (const std::string& bytes : Unparsable()) {
    RawCall call(channel, "/recurve.v1.Datasets/UploadDataset");
    call.Write(header.SerializeAsString());
    call.Write(chunk.SerializeAsString());
    call.Write(bytes);
    call.WritesDone();
    v1::Dataset dataset;
    EXPECT_FALSE(call.Read(&dataset));
    ExpectError(call.Finish(), StatusCode::INVALID_ARGUMENT,
                "recurve.v1.UploadDatasetRequest");
  }
  v1::ListDatasetsResponse list;
  ExpectOk(Call(*datasets, &v1::Datasets::Stub::ListDatasets,
                v1::ListDatasetsRequest(), &list));
  EXPECT_EQ(list.datasets_size(), 0);
}

// Of a call with one request gRPC says so itself, before ours see it.
TEST_F(UnparsableTest, OneRequestIsRefusedByGrpc) {
  for (const char* const method :
       {"/recurve.v1.Inference/Predict", "/recurve.v1.Inference/Generate",
        "/inference.GRPCInferenceService/ModelInfer"}) {
    for (const std::string& bytes : Unparsable()) {
      RawCall call(channel, method);
      call.Write(bytes);
      call.WritesDone();
      v1::PredictResponse response;
      EXPECT_FALSE(call.Read(&response));
      EXPECT_EQ(call.Finish().error_code(), StatusCode::UNIMPLEMENTED)
          << method;
    }
  }
  ExpectItServes();
}

}  // namespace
}  // namespace recurve::server
