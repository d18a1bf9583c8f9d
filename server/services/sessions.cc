#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/resource_id.h"
#include "engine/serve/model_name.h"
#include "engine/serve/sealed_bytes.h"
#include "engine/serve/session_operations.h"
#include "engine/serve/session_snapshot.h"
#include "engine/serve/session_store.h"
#include "kernels/status.h"
#include "proto/recurve/v1/sessions.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/resource_name.h"
#include "server/services/predict.h"
#include "server/services/services.h"
#include "server/session_name.h"

namespace recurve::server {
namespace {

using google::protobuf::Empty;
using grpc::CallbackServerContext;

v1::Session Describe(const SessionInfo& info) {
  v1::Session wire;
  wire.set_name(SessionName(info.id));
  wire.set_model_version(info.version->name);
  wire.set_position(info.position);
  *wire.mutable_create_time() = ToWire(info.create_time);
  *wire.mutable_last_use_time() = ToWire(info.last_use_time);
  *wire.mutable_expire_time() = ToWire(info.expire_time);
  if (info.device) wire.set_device(absl::StrCat("devices/", *info.device));
  wire.set_state_bytes(info.state_bytes);
  return wire;
}

absl::StatusOr<std::string> NewId(const std::string& given) {
  const std::string id = IdOrRandom(given, "session-");
  RETURN_IF_ERROR(CheckResourceId(id, "session_id"));
  return id;
}

// Not of weights in training.
absl::StatusOr<ModelHandle> FindVersion(const Engine& engine,
                                        const std::string& name,
                                        absl::string_view field) {
  if (absl::StartsWith(name, "trainers/")) {
    return absl::FailedPreconditionError(absl::StrCat(
        field, ": a session is on a version of a model, not on ", name));
  }
  return FindReadyModel(engine, name);
}

absl::Status CreateSession(Engine& engine,
                           const v1::CreateSessionRequest& request,
                           v1::Session* response) {
  ASSIGN_OR_RETURN(const std::string id, NewId(request.session_id()));
  ASSIGN_OR_RETURN(const ModelHandle version,
                   FindVersion(engine, request.model(), "model"));
  absl::StatusOr<SessionInfo> info;
  if (request.snapshot().empty()) {
    info = engine.sessions.Create({id, version});
  } else {
    ASSIGN_OR_RETURN(SessionSnapshot snapshot,
                     ParseSnapshot(request.snapshot()));
    info = RestoreSession(engine.sessions, id, version, std::move(snapshot));
  }
  RETURN_IF_ERROR(info.status());
  *response = Describe(*info);
  return absl::OkStatus();
}

absl::Status GetSession(Engine& engine, const v1::GetSessionRequest& request,
                        v1::Session* response) {
  ASSIGN_OR_RETURN(const std::string id, SessionId(request.name(), "name"));
  ASSIGN_OR_RETURN(const SessionInfo info, engine.sessions.Get(id));
  *response = Describe(info);
  return absl::OkStatus();
}

absl::Status DeleteSession(Engine& engine,
                           const v1::DeleteSessionRequest& request) {
  ASSIGN_OR_RETURN(const std::string id, SessionId(request.name(), "name"));
  return engine.sessions.Delete(id);
}

// The last id of the page before, any bytes, as text that can be told from
// other text.
std::string PageToken(const std::string& last_id) {
  return absl::WebSafeBase64Escape(Seal(last_id));
}

absl::StatusOr<std::string> LastId(const std::string& page_token) {
  if (page_token.empty()) return std::string();
  std::string sealed;
  if (absl::WebSafeBase64Unescape(page_token, &sealed)) {
    if (const auto id = Unseal(sealed)) return std::string(*id);
  }
  return absl::InvalidArgumentError(
      "page_token: is not one that ListSessions gave");
}

absl::Status CheckIsThere(const Engine& engine, const std::string& model) {
  ASSIGN_OR_RETURN(const ModelName name, ParseModelName(model));
  if (name.names_model()) return engine.registry->Describe(model).status();
  RETURN_IF_ERROR(ParseVersionOnly(model).status());
  return engine.registry->Get(model).status();
}

absl::Status ListSessions(Engine& engine,
                          const v1::ListSessionsRequest& request,
                          v1::ListSessionsResponse* response) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const std::string last_id, LastId(request.page_token()));
  const std::string& model = request.model();
  const auto wanted = [&model](const ModelVersion& version) {
    return model.empty() || model == version.name ||
           model == absl::StrCat("models/", version.model_id);
  };
  const auto infos = engine.sessions.List(last_id, size + 1, wanted);
  // Sessions may be on a version that was deleted.
  if (infos.empty() && !model.empty()) return CheckIsThere(engine, model);
  for (const SessionInfo& info : infos) {
    if (response->sessions_size() == size) {
      response->set_next_page_token(PageToken(infos[size - 1].id));
      break;
    }
    *response->add_sessions() = Describe(info);
  }
  return absl::OkStatus();
}

// --- Those that wait for their turn on the session ---

using Describes = std::function<void(absl::StatusOr<SessionInfo>)>;

Describes ReplyWith(UnaryCall* call, v1::Session* response) {
  return [call, response](absl::StatusOr<SessionInfo> info) {
    if (info.ok()) *response = Describe(*info);
    call->Reply(info.status());
  };
}

absl::Status Snapshot(Engine& engine, const v1::SnapshotSessionRequest& request,
                      v1::SessionSnapshot* response, UnaryCall* call) {
  ASSIGN_OR_RETURN(const std::string id, SessionId(request.name(), "name"));
  SnapshotSession(engine.sessions, id, call->control(),
                  [call, response](absl::StatusOr<SessionSnapshot> snapshot) {
                    if (!snapshot.ok()) return call->Reply(snapshot.status());
                    response->set_data(SerializeSnapshot(*snapshot));
                    response->set_position(snapshot->position);
                    response->set_model_version(snapshot->model_version);
                    call->Reply(absl::OkStatus());
                  });
  return absl::OkStatus();
}

absl::Status Fork(Engine& engine, const v1::ForkSessionRequest& request,
                  v1::Session* response, UnaryCall* call) {
  ASSIGN_OR_RETURN(const std::string id, SessionId(request.name(), "name"));
  ASSIGN_OR_RETURN(const std::string new_id, NewId(request.session_id()));
  ForkSession(engine.sessions, id, new_id, call->control(),
              ReplyWith(call, response));
  return absl::OkStatus();
}

absl::Status Move(Engine& engine, const v1::MoveSessionRequest& request,
                  v1::Session* response, UnaryCall* call) {
  ASSIGN_OR_RETURN(const std::string id, SessionId(request.name(), "name"));
  ASSIGN_OR_RETURN(
      const ModelHandle version,
      FindVersion(engine, request.model_version(), "model_version"));
  MoveSession(engine.sessions, id, version, call->control(),
              ReplyWith(call, response));
  return absl::OkStatus();
}

class SessionsService final : public v1::Sessions::CallbackService {
 public:
  explicit SessionsService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* CreateSession(
      CallbackServerContext* context, const v1::CreateSessionRequest* request,
      v1::Session* response) override {
    return ReplyNow(context, [&] {
      return server::CreateSession(engine_, *request, response);
    });
  }
  grpc::ServerUnaryReactor* GetSession(CallbackServerContext* context,
                                       const v1::GetSessionRequest* request,
                                       v1::Session* response) override {
    return ReplyNow(context, [&] {
      return server::GetSession(engine_, *request, response);
    });
  }
  grpc::ServerUnaryReactor* ListSessions(
      CallbackServerContext* context, const v1::ListSessionsRequest* request,
      v1::ListSessionsResponse* response) override {
    return ReplyNow(context, [&] {
      return server::ListSessions(engine_, *request, response);
    });
  }
  grpc::ServerUnaryReactor* DeleteSession(
      CallbackServerContext* context, const v1::DeleteSessionRequest* request,
      Empty*) override {
    return ReplyNow(context,
                    [&] { return server::DeleteSession(engine_, *request); });
  }
  grpc::ServerUnaryReactor* SnapshotSession(
      CallbackServerContext* context, const v1::SnapshotSessionRequest* request,
      v1::SessionSnapshot* response) override {
    return Begin(context, *request, response, Snapshot);
  }
  grpc::ServerUnaryReactor* ForkSession(CallbackServerContext* context,
                                        const v1::ForkSessionRequest* request,
                                        v1::Session* response) override {
    return Begin(context, *request, response, Fork);
  }
  grpc::ServerUnaryReactor* MoveSession(CallbackServerContext* context,
                                        const v1::MoveSessionRequest* request,
                                        v1::Session* response) override {
    return Begin(context, *request, response, Move);
  }

 private:
  // `begin` answers the call unless it returns an error.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Begin(CallbackServerContext* context,
                                  const Request& request, Response* response,
                                  absl::Status (*begin)(Engine&, const Request&,
                                                        Response*,
                                                        UnaryCall*)) {
    return UnaryCall::Start(engine_.calls, *context, [&](UnaryCall* call) {
      const absl::Status begun = begin(engine_, request, response, call);
      if (!begun.ok()) call->Reply(begun);
    });
  }

  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewSessionsService(Engine& engine) {
  return std::make_unique<SessionsService>(engine);
}

}  // namespace recurve::server
