#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "kernels/status.h"
#include "proto/recurve/v1/jobs.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/notice.h"
#include "server/request_strings.h"
#include "server/resource_name.h"
#include "server/services/services.h"
#include "server/stream_call.h"

namespace recurve::server {
namespace {

using google::protobuf::Empty;
using grpc::CallbackServerContext;

// A job's events as they come, until it has ended.
class WatchCall : public StreamCall<v1::JobEvent> {
 public:
  WatchCall(Engine& engine, const v1::WatchJobRequest& request,
            const CallbackServerContext& context)
      : StreamCall(engine.calls, engine.io, engine.config.max_message_bytes(),
                   context),
        jobs_(*engine.jobs),
        stopped_(engine.jobs_stopped),
        name_(request.name()),
        next_(request.first_event()) {}

 private:
  static constexpr int kEventsAtOnce = 100;

  absl::StatusOr<Step> Next(v1::JobEvent* message) override {
    if (subscription_ == nullptr) RETURN_IF_ERROR(Subscribe());
    if (events_.empty()) {
      const bool stopped = stopped_.given();
      // Before the events: once it has ended, there are no more to come.
      ASSIGN_OR_RETURN(const Job job, jobs_.Get(id_));
      ASSIGN_OR_RETURN(const std::vector<JobEvent> events,
                       jobs_.Events(id_, next_, kEventsAtOnce));
      events_.assign(events.begin(), events.end());
      if (events_.empty() && HasEnded(job.state)) return Step::kEnd;
      if (events_.empty() && stopped) return Stopped();
      if (events_.empty()) return Step::kWait;
    }
    *message = ToWire(events_.front());
    next_ = events_.front().number + 1;
    events_.pop_front();
    return Step::kWrite;
  }

  absl::Status Stopped() const {
    return absl::UnavailableError(
        absl::StrCat("the server is shutting down; ", name_,
                     " goes on when it is back, from event ", next_));
  }

  absl::Status Subscribe() {
    ASSIGN_OR_RETURN(id_, ParseName(name_, "jobs", "name"));
    if (next_ < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("first_event: is ", next_, ", must be 0 or more"));
    }
    ASSIGN_OR_RETURN(subscription_, jobs_.Subscribe(id_, [this] { Wake(); }));
    listener_ = stopped_.Listen([this] { Wake(); });
    return absl::OkStatus();
  }

  void Release() override {
    subscription_.reset();
    listener_.reset();
  }

  JobStore& jobs_;
  Notice& stopped_;
  const std::string name_;
  std::string id_;
  int64_t next_;                 // number of the next event to read
  std::deque<JobEvent> events_;  // read, not sent yet
  std::unique_ptr<JobSubscription> subscription_;
  std::unique_ptr<Notice::Listener> listener_;
};

class JobsService final : public v1::Jobs::CallbackService {
 public:
  explicit JobsService(Engine& engine) : engine_(engine) {}

  // Calls on jobs are short, and no step or evaluation may keep them waiting:
  // theirs are the io threads.
  grpc::ServerUnaryReactor* Train(CallbackServerContext* context,
                                  const v1::TrainRequest* request,
                                  v1::Job* response) override {
    return Reply(context, [this, request, response] {
      return Submit(*request, response);
    });
  }

  grpc::ServerUnaryReactor* GetJob(CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::Job* response) override {
    return Reply(context, [this, request, response]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::string id,
                       ParseName(request->name(), "jobs", "name"));
      return Answer(engine_.jobs->Get(id), response);
    });
  }

  grpc::ServerUnaryReactor* ListJobs(CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override {
    return Reply(context, [this, request, response] {
      return List(*request, response);
    });
  }

  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(
      CallbackServerContext* context,
      const v1::WatchJobRequest* request) override {
    return WatchCall::Start(
        std::make_shared<WatchCall>(engine_, *request, *context));
  }

  grpc::ServerUnaryReactor* CancelJob(CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override {
    return Change(context, request->name(), JobChange::kCancel, response);
  }
  grpc::ServerUnaryReactor* PauseJob(CallbackServerContext* context,
                                     const v1::PauseJobRequest* request,
                                     v1::Job* response) override {
    return Change(context, request->name(), JobChange::kPause, response);
  }
  grpc::ServerUnaryReactor* ResumeJob(CallbackServerContext* context,
                                      const v1::ResumeJobRequest* request,
                                      v1::Job* response) override {
    return Change(context, request->name(), JobChange::kResume, response);
  }

  grpc::ServerUnaryReactor* DeleteJob(CallbackServerContext* context,
                                      const v1::DeleteJobRequest* request,
                                      Empty*) override {
    return Reply(context, [this, request]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::string id,
                       ParseName(request->name(), "jobs", "name"));
      return engine_.job_runner.Delete(id);
    });
  }

 private:
  template <typename Work>
  grpc::ServerUnaryReactor* Reply(CallbackServerContext* context, Work work) {
    return ReplyByWork(
        engine_.calls, engine_.io, context,
        [work = std::move(work)](const CallControl&) { return work(); });
  }

  grpc::ServerUnaryReactor* Change(CallbackServerContext* context,
                                   const std::string& name, JobChange change,
                                   v1::Job* response) {
    return Reply(context, [this, name, change, response]() -> absl::Status {
      ASSIGN_OR_RETURN(const std::string id, ParseName(name, "jobs", "name"));
      return Answer(engine_.job_runner.Change(id, change), response);
    });
  }

  absl::Status Answer(absl::StatusOr<Job> job, v1::Job* response) const {
    RETURN_IF_ERROR(job.status());
    engine_.job_runner.Explain(absl::MakeSpan(&*job, 1));
    *response = ToWire(*job);
    return absl::OkStatus();
  }

  absl::Status Submit(const v1::TrainRequest& request, v1::Job* response) {
    RETURN_IF_ERROR(CheckStrings(request));
    // Sizes that come from the data are not known yet.
    const auto model = Model::Create(request.spec().config());
    if (model.ok()) RETURN_IF_ERROR(engine_.CheckSize(**model));
    return Answer(engine_.job_runner.Submit(FromWire(request)), response);
  }

  absl::Status List(const v1::ListJobsRequest& request,
                    v1::ListJobsResponse* response) const {
    RETURN_IF_ERROR(CheckStrings(request));
    ASSIGN_OR_RETURN(JobPage page, engine_.jobs->List(request.page_size(),
                                                      request.page_token()));
    engine_.job_runner.Explain(absl::MakeSpan(page.jobs));
    for (const Job& job : page.jobs) *response->add_jobs() = ToWire(job);
    response->set_next_page_token(std::move(page.next_page_token));
    return absl::OkStatus();
  }

  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewJobsService(Engine& engine) {
  return std::make_unique<JobsService>(engine);
}

}  // namespace recurve::server
