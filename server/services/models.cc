#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/resource_id.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "kernels/status.h"
#include "proto/recurve/v1/model.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/file_stream.h"
#include "server/request_strings.h"
#include "server/resource_name.h"
#include "server/services/model_versions.h"
#include "server/services/services.h"
#include "server/stream_call.h"
#include "server/upload_call.h"

namespace recurve::server {
namespace {

using google::protobuf::Empty;
using grpc::CallbackServerContext;

absl::Status CreateModel(Engine& engine, const v1::CreateModelRequest& request,
                         v1::Model* response) {
  RETURN_IF_ERROR(CheckStrings(request));
  RETURN_IF_ERROR(CheckResourceId(request.model_id(), "model_id"));
  ModelHandle version =
      engine.registry->FindRequest(request.model_id(), request.request_id());
  if (version == nullptr) {
    VersionContents contents;
    ASSIGN_OR_RETURN(contents.model, Model::Create(request.config()));
    RETURN_IF_ERROR(engine.CheckSize(*contents.model));
    contents.parameters = InitializeParameters(*contents.model, request.seed());
    contents.vocabulary = ToVector(request.vocabulary());
    contents.source = "created";
    contents.request_id = request.request_id();
    ASSIGN_OR_RETURN(version, engine.registry->Create(request.model_id(),
                                                      std::move(contents)));
  }
  ASSIGN_OR_RETURN(
      const ModelSummary summary,
      engine.registry->Describe(absl::StrCat("models/", version->model_id)));
  *response = ToWire(summary);
  return absl::OkStatus();
}

absl::Status GetModelVersion(Engine& engine,
                             const v1::GetModelVersionRequest& request,
                             v1::ModelVersion* response) {
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.registry->Get(request.name()));
  *response = ToWire(engine, *version, /*whole=*/true);
  return absl::OkStatus();
}

absl::Status ListModels(Engine& engine, const v1::ListModelsRequest& request,
                        v1::ListModelsResponse* response) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  if (!request.page_token().empty()) {  // the last id of the page before
    RETURN_IF_ERROR(CheckResourceId(request.page_token(), "page_token"));
  }
  const std::vector<ModelSummary> summaries =
      engine.registry->ListModels(request.page_token(), size + 1);
  for (const ModelSummary& summary : summaries) {
    if (response->models_size() == size) {
      ASSIGN_OR_RETURN(
          const std::string last,
          ParseName(response->models(size - 1).name(), "models", "page_token"));
      response->set_next_page_token(last);
      break;
    }
    *response->add_models() = ToWire(summary);
  }
  return absl::OkStatus();
}

absl::Status ListModelVersions(Engine& engine,
                               const v1::ListModelVersionsRequest& request,
                               v1::ListModelVersionsResponse* response) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  int64_t after = 0;  // the last number of the page before
  if (!request.page_token().empty() &&
      (!absl::SimpleAtoi(request.page_token(), &after) || after < 0)) {
    return absl::InvalidArgumentError(
        "page_token: is not one that ListModelVersions gave");
  }
  ASSIGN_OR_RETURN(
      const std::vector<ModelHandle> versions,
      engine.registry->ListVersions(request.parent(), after, size + 1));
  for (const ModelHandle& version : versions) {
    if (response->versions_size() == size) {
      response->set_next_page_token(absl::StrCat(after));
      break;
    }
    *response->add_versions() = ToWire(engine, *version, /*whole=*/false);
    after = version->number;
  }
  return absl::OkStatus();
}

// A checkpoint on its way in: a file of its own until it is imported.
class ImportSink : public UploadSink {
 public:
  static absl::StatusOr<std::unique_ptr<UploadSink>> Open(
      Engine& engine, const v1::ImportModelRequest::Header& header,
      v1::ModelVersion* response) {
    RETURN_IF_ERROR(CheckStrings(header));
    RETURN_IF_ERROR(CheckResourceId(header.model_id(), "header.model_id"));
    if (ModelHandle done = engine.registry->FindRequest(header.model_id(),
                                                        header.request_id())) {
      *response = ToWire(engine, *done, /*whole=*/true);
      return nullptr;
    }
    // What can be said before the bytes are there.
    ASSIGN_OR_RETURN(const auto model, Model::Create(header.config()));
    RETURN_IF_ERROR(engine.CheckSize(*model));
    ASSIGN_OR_RETURN(TemporaryFile file,
                     TemporaryFile::Create(engine.upload_directory));
    return std::unique_ptr<UploadSink>(
        new ImportSink(engine, header, std::move(file), response));
  }

  absl::Status Append(absl::string_view bytes) override {
    return file_.Append(bytes);
  }

  absl::Status Commit(const CallControl& control) override {
    RETURN_IF_ERROR(control.Check());
    ImportContents contents;
    contents.path = file_.path();
    contents.config = header_.config();
    contents.vocabulary = ToVector(header_.vocabulary());
    contents.options.embedding_key = header_.embedding_key();
    contents.options.output_key = header_.output_key();
    contents.request_id = header_.request_id();
    ASSIGN_OR_RETURN(const ModelHandle version,
                     engine_.registry->Import(header_.model_id(), contents));
    *response_ = ToWire(engine_, *version, /*whole=*/true);
    return absl::OkStatus();
  }

 private:
  ImportSink(Engine& engine, v1::ImportModelRequest::Header header,
             TemporaryFile file, v1::ModelVersion* response)
      : engine_(engine),
        header_(std::move(header)),
        file_(std::move(file)),
        response_(response) {}

  Engine& engine_;
  const v1::ImportModelRequest::Header header_;
  TemporaryFile file_;
  v1::ModelVersion* const response_;
};

// The version's files, one after another.
class ExportCall : public StreamCall<v1::ExportModelResponse> {
 public:
  ExportCall(Engine& engine, std::string name,
             const CallbackServerContext& context)
      : StreamCall(engine.calls, engine.io, engine.config.max_message_bytes(),
                   context),
        engine_(engine),
        name_(std::move(name)) {}

 private:
  absl::StatusOr<Step> Next(v1::ExportModelResponse* message) override {
    if (files_ == nullptr) {
      ASSIGN_OR_RETURN(const ModelHandle version, engine_.registry->Get(name_));
      ASSIGN_OR_RETURN(files_, VersionFileStream::Open(*version));
    }
    ASSIGN_OR_RETURN(const bool more, files_->Next(message->mutable_file_name(),
                                                   message->mutable_chunk()));
    return more ? Step::kWrite : Step::kEnd;
  }

  Engine& engine_;
  const std::string name_;
  std::unique_ptr<VersionFileStream> files_;
};

class ModelsService final : public v1::Models::CallbackService {
 public:
  explicit ModelsService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* CreateModel(CallbackServerContext* context,
                                        const v1::CreateModelRequest* request,
                                        v1::Model* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl&) {
                         return server::CreateModel(engine_, *request,
                                                    response);
                       });
  }

  grpc::ServerUnaryReactor* GetModel(CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override {
    return ReplyNow(context, [&] {
      auto summary = engine_.registry->Describe(request->name());
      if (summary.ok()) *response = ToWire(*summary);
      return summary.status();
    });
  }

  grpc::ServerUnaryReactor* ListModels(
      CallbackServerContext* context, const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override {
    return ReplyNow(context, [&] {
      return server::ListModels(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* DeleteModel(CallbackServerContext* context,
                                        const v1::DeleteModelRequest* request,
                                        Empty*) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request](const CallControl&) {
                         return engine_.registry->Delete(request->name());
                       });
  }

  grpc::ServerUnaryReactor* GetModelVersion(
      CallbackServerContext* context, const v1::GetModelVersionRequest* request,
      v1::ModelVersion* response) override {
    return ReplyNow(context, [&] {
      return server::GetModelVersion(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* ListModelVersions(
      CallbackServerContext* context,
      const v1::ListModelVersionsRequest* request,
      v1::ListModelVersionsResponse* response) override {
    return ReplyNow(context, [&] {
      return server::ListModelVersions(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* SetModelAlias(
      CallbackServerContext* context, const v1::SetModelAliasRequest* request,
      v1::Model* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl&) {
                         return server::SetModelAlias(engine_, *request,
                                                      response);
                       });
  }

  grpc::ServerUnaryReactor* DeleteModelAlias(
      CallbackServerContext* context,
      const v1::DeleteModelAliasRequest* request, Empty*) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request](const CallControl&) {
                         return engine_.registry->DeleteAlias(request->name());
                       });
  }

  grpc::ServerUnaryReactor* LoadModelVersion(
      CallbackServerContext* context,
      const v1::LoadModelVersionRequest* request,
      v1::ModelVersion* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl& control) {
                         return server::LoadModelVersion(engine_, *request,
                                                         control, response);
                       });
  }

  grpc::ServerUnaryReactor* UnloadModelVersion(
      CallbackServerContext* context,
      const v1::UnloadModelVersionRequest* request,
      v1::ModelVersion* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl&) {
                         return server::UnloadModelVersion(engine_, *request,
                                                           response);
                       });
  }

  grpc::ServerUnaryReactor* DeleteModelVersion(
      CallbackServerContext* context,
      const v1::DeleteModelVersionRequest* request, Empty*) override {
    return ReplyByWork(
        engine_.calls, engine_.work, context,
        [this, request](const CallControl&) {
          return engine_.registry->DeleteVersion(request->name());
        });
  }

  grpc::ServerReadReactor<v1::ImportModelRequest>* ImportModel(
      CallbackServerContext* context, v1::ModelVersion* response) override {
    return new UploadCall<v1::ImportModelRequest>(
        engine_.calls, engine_.io, engine_.work,
        engine_.config.max_upload_bytes(), *context,
        [this, response](const v1::ImportModelRequest::Header& header) {
          return ImportSink::Open(engine_, header, response);
        });
  }

  grpc::ServerWriteReactor<v1::ExportModelResponse>* ExportModel(
      CallbackServerContext* context,
      const v1::ExportModelRequest* request) override {
    return ExportCall::Start(
        std::make_shared<ExportCall>(engine_, request->name(), *context));
  }

 private:
  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewModelsService(Engine& engine) {
  return std::make_unique<ModelsService>(engine);
}

}  // namespace recurve::server
