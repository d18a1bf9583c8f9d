#include "server/call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/status.h"

namespace recurve::server {

LiveCalls::Flag LiveCalls::Begin() {
  absl::MutexLock lock(&mutex_);
  auto flag = std::make_shared<std::atomic<bool>>(stopped_);
  flags_.insert(flag);
  return flag;
}

void LiveCalls::End(const Flag& flag) {
  absl::MutexLock lock(&mutex_);
  flags_.erase(flag);
}

absl::Status LiveCalls::TakeStream() {
  absl::MutexLock lock(&mutex_);
  if (free_streams_ == 0) {
    return absl::ResourceExhaustedError(
        "too many streaming calls are open; try again later");
  }
  --free_streams_;
  return absl::OkStatus();
}

void LiveCalls::ReturnStream() {
  absl::MutexLock lock(&mutex_);
  ++free_streams_;
}

void LiveCalls::StopAll() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  for (const Flag& flag : flags_) *flag = true;
}

bool LiveCalls::AwaitNone(absl::Time deadline) const {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return flags_.empty();
  };
  return mutex_.AwaitWithDeadline(absl::Condition(&none), deadline);
}

absl::Status LiveCalls::Outcome(absl::Status status) const {
  absl::MutexLock lock(&mutex_);
  return stopped_ && absl::IsCancelled(status)
             ? absl::UnavailableError("the server is shutting down")
             : status;
}

CallControl ControlOf(const grpc::CallbackServerContext& context,
                      const LiveCalls::Flag& flag) {
  CallControl control;
  control.cancelled = flag;
  const auto deadline = context.deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    control.deadline = absl::FromChrono(deadline);
  }
  return control;
}

grpc::ServerUnaryReactor* ReplyNow(grpc::CallbackServerContext* context,
                                   absl::FunctionRef<absl::Status()> answer) {
  const GatedCall gated(*context);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(
      gated.End(ToGrpc(gated.status().ok() ? answer() : gated.status())));
  return reactor;
}

grpc::ServerUnaryReactor* UnaryCall::Start(
    LiveCalls& live, const grpc::CallbackServerContext& context,
    absl::FunctionRef<void(UnaryCall*)> begin) {
  auto* const call = new UnaryCall(live, context);
  const absl::Status& admitted = call->gated_.status();
  admitted.ok() ? begin(call) : call->Reply(admitted);
  return call;
}

UnaryCall::UnaryCall(LiveCalls& live,
                     const grpc::CallbackServerContext& context)
    : gated_(context),
      live_(live),
      flag_(live.Begin()),
      control_(ControlOf(context, flag_)) {}

void UnaryCall::Reply(const absl::Status& status) {
  Finish(gated_.End(ToGrpc(live_.Outcome(status))));
}

void UnaryCall::OnDone() {
  live_.End(flag_);
  delete this;
}

grpc::ServerUnaryReactor* ReplyByWork(
    LiveCalls& live, WorkQueue& queue, grpc::CallbackServerContext* context,
    std::function<absl::Status(const CallControl&)> work) {
  return UnaryCall::Start(live, *context, [&](UnaryCall* call) {
    const absl::Status accepted = queue.TryAdd([call, work = std::move(work)] {
      const absl::Status wanted = call->control().Check();
      call->Reply(wanted.ok() ? work(call->control()) : wanted);
    });
    if (!accepted.ok()) call->Reply(accepted);
  });
}

}  // namespace recurve::server
