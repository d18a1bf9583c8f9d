#include "tests/benchmarks/serving/load.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace recurve::serving {
namespace {

// More than any server answers at once: past it an open loop skips calls, and
// says so.
constexpr int64_t kMaxOutstanding = 50'000;
constexpr size_t kMaxMessages = 8;

absl::Duration CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) +
         absl::DurationFromTimeval(usage.ru_stime);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(),
                                   arguments);
}

class Load {
 public:
  explicit Load(const LoadOptions& options) : options_(options) {
    const int connections =
        options.rate > 0 ? options.connections
                         : std::min(options.connections, options.clients);
    for (int i = 0; i < connections; ++i) {
      channels_.push_back(Connect(options.server));
      stubs_.emplace_back(channels_.back());
      channels_.back()->WaitForConnected(std::chrono::system_clock::now() +
                                         std::chrono::seconds(10));
    }
  }

  LoadReport Run() {
    counts_from_ = absl::Now() + options_.warm_up;
    end_ = counts_from_ + options_.duration;
    if (options_.rate > 0) {
      due_ = absl::Now();
    } else {
      for (int i = 0; i < options_.clients; ++i) Send(i, absl::Now());
    }
    while (absl::Now() < end_) Turn();
    report_.duration = options_.duration;
    report_.load_cpu_seconds = absl::ToDoubleSeconds(CpuTime() - cpu_begin_);
    Stop();
    return std::move(report_);
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
    size_t number = 0;
    absl::Time since;
    int64_t rows = 0;
  };

  // Sends what is due, then takes one reply if there is one in time.
  void Turn() {
    absl::Time until = std::min(end_, std::max(counts_from_, absl::Now()));
    if (absl::Now() >= counts_from_) {
      until = end_;
      if (!counts_) StartCounting();
    }
    if (options_.rate > 0) until = std::min(until, SendDue());
    void* tag = nullptr;
    bool ok = false;
    if (queue_.AsyncNext(&tag, &ok, absl::ToChronoTime(until)) ==
        grpc::CompletionQueue::GOT_EVENT) {
      Ended(std::unique_ptr<Call>(static_cast<Call*>(tag)));
    }
  }

  void StartCounting() {
    counts_ = true;
    cpu_begin_ = CpuTime();
  }

  // When the next call is due.
  absl::Time SendDue() {
    std::exponential_distribution<double> gap(options_.rate);
    while (due_ <= absl::Now()) {
      if (outstanding_ < kMaxOutstanding) {
        Send(sent_, due_);
      } else if (counts_) {
        ++report_.codes["not sent"];
      }
      due_ += absl::Seconds(gap(random_));
    }
    return due_;
  }

  void Send(size_t number, absl::Time since) {
    const LoadRequest& request =
        options_.requests[number % options_.requests.size()];
    auto call = std::make_unique<Call>();
    call->number = number;
    call->since = since;
    call->rows = request.rows;
    if (options_.deadline != absl::InfiniteDuration()) {
      call->context.set_deadline(
          absl::ToChronoTime(absl::Now() + options_.deadline));
    }
    call->reader = stubs_[number % stubs_.size()].PrepareUnaryCall(
        &call->context, options_.method, request.message, &queue_);
    ++sent_;
    ++outstanding_;
    call->reader->StartCall();
    Call* const sent = call.release();  // until Ended
    sent->reader->Finish(&sent->reply, &sent->status, sent);
  }

  void Ended(std::unique_ptr<Call> call) {
    --outstanding_;
    if (counts_) Count(*call);
    if (options_.rate > 0 || stopped_) return;
    Send(options_.keep_request ? call->number : sent_, absl::Now());
  }

  void Count(const Call& call) {
    const auto code = static_cast<absl::StatusCode>(call.status.error_code());
    ++report_.codes[absl::StatusCodeToString(code)];
    const absl::Duration latency = absl::Now() - call.since;
    if (call.status.ok()) {
      report_.rows += call.rows;
      report_.answered.Add(latency);
      return;
    }
    if (report_.messages.size() < kMaxMessages) {
      ++report_.messages[call.status.error_message()];
    }
    if (code != absl::StatusCode::kResourceExhausted) return;
    report_.refused.Add(latency);
    if (absl::StrContains(call.status.error_details(),
                          "google.rpc.RetryInfo")) {
      ++report_.refused_with_hint;
    }
  }

  // Waits for the calls that are left.
  void Stop() {
    stopped_ = true;
    counts_ = false;
    void* tag = nullptr;
    bool ok = false;
    while (outstanding_ > 0 && queue_.Next(&tag, &ok)) {
      Ended(std::unique_ptr<Call>(static_cast<Call*>(tag)));
    }
    queue_.Shutdown();
    while (queue_.Next(&tag, &ok)) {
    }
  }

  const LoadOptions& options_;
  grpc::CompletionQueue queue_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::vector<grpc::GenericStub> stubs_;
  std::mt19937 random_{12};
  absl::Time counts_from_, end_, due_;
  absl::Duration cpu_begin_;
  bool counts_ = false, stopped_ = false;
  size_t sent_ = 0;
  int64_t outstanding_ = 0;
  LoadReport report_;
};

}  // namespace

nlohmann::json LoadReport::ToJson() const {
  const double seconds = absl::ToDoubleSeconds(duration);
  const nlohmann::json answers = answered.Summary();
  return {
      {"seconds", seconds},
      {"rows_per_s", static_cast<double>(rows) / seconds},
      {"requests_per_s", answers["count"].get<double>() / seconds},
      {"answered", answers},
      {"refused", refused.Summary()},
      {"refused_with_hint", refused_with_hint},
      {"codes", codes},
      {"messages", messages},
      {"load_cpu_seconds", load_cpu_seconds},
  };
}

LoadReport RunLoad(const LoadOptions& options) { return Load(options).Run(); }

}  // namespace recurve::serving
