#include "tests/faults/promises.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/faults/workload.h"

namespace recurve::faults {
namespace {

constexpr const char* kStateWords[] = {"kept", "deleting", "deleted"};

// Reads every byte of it, which the server checks against its sha256.
absl::Status ReadDataset(Client& client, const std::string& name) {
  return client.ReadBatches(BytesSpec(name),
                            [](const auto&) { return absl::OkStatus(); });
}

absl::Status Export(Client& client, const std::string& version) {
  return client.ExportModel(
      version, [](const auto&, const auto&) { return absl::OkStatus(); });
}

// Numbered 0, 1, 2, ..., the last one being the job's end.
absl::Status ReadEvents(Client& client, const v1::Job& job) {
  int64_t next = 0;
  v1::Job last;
  const absl::Status status =
      client.WatchJob(job.name(), 0, [&](const v1::JobEvent& event) {
        if (event.has_state()) last = event.state();
        if (event.number() == next++) return absl::OkStatus();
        return absl::DataLossError(
            absl::StrCat("event ", event.number(), " stands for ", next - 1));
      });
  if (!status.ok() || DescribeEnd(last) == DescribeEnd(job)) return status;
  return absl::DataLossError(absl::StrCat("the last event has ",
                                          DescribeEnd(last), ", the job ",
                                          DescribeEnd(job)));
}

// Collects what went wrong with what.
class Findings {
 public:
  void Check(const std::string& name, const absl::Status& status) {
    if (!status.ok())
      lines_.push_back(absl::StrCat(name, ": ", status.ToString()));
  }
  template <typename T>
  T Value(const std::string& name, absl::StatusOr<T> value) {
    Check(name, value.status());
    return value.ok() ? *std::move(value) : T();
  }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

}  // namespace

Promises::Promises(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string state, name, value;
    words >> state >> name;
    std::getline(words >> std::ws, value);
    for (int i = 0; i < 3; ++i) {
      if (state == kStateWords[i]) Set(static_cast<State>(i), name, value);
    }
  }
  log_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
}

Promises::~Promises() {
  if (log_ >= 0) close(log_);
}

void Promises::Set(State state, const std::string& name,
                   const std::string& value) {
  absl::MutexLock lock(&mutex_);
  promises_[name] = {state, value};
  if (log_ < 0) return;
  const std::string line = absl::StrCat(kStateWords[static_cast<int>(state)],
                                        " ", name, " ", value, "\n");
  if (write(log_, line.data(), line.size()) < 0) _exit(1);
}

void Promises::Kept(const std::string& name, const std::string& value) {
  Set(State::kKept, name, value);
}
void Promises::Deleting(const std::string& name) {
  Set(State::kDeleting, name, "");
}
void Promises::Deleted(const std::string& name) {
  Set(State::kDeleted, name, "");
}

std::vector<std::string> Promises::Names(const std::string& prefix) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, promise] : promises_) {
    if (promise.state == State::kKept && absl::StartsWith(name, prefix)) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> Promises::Broken(Client& client) const {
  std::map<std::string, Promise> promises;
  {
    absl::MutexLock lock(&mutex_);
    promises = promises_;
  }
  std::vector<std::string> broken;
  for (const auto& [name, promise] : promises) {
    const auto now = Describe(client, name);
    if (promise.state == State::kDeleted) {
      if (absl::IsNotFound(now.status())) continue;
      broken.push_back(
          absl::StrCat(name, ": was deleted and is ",
                       now.ok() ? "back" : now.status().ToString()));
    } else if (promise.state == State::kKept) {
      if (now.ok() && (promise.value.empty() || promise.value == *now))
        continue;
      broken.push_back(absl::StrCat(name, ": was \"", promise.value, "\", is ",
                                    now.ok() ? *now : now.status().ToString()));
    }
  }
  return broken;
}

std::string DescribeEnd(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::SUCCEEDED:
    case v1::Job::FAILED:
    case v1::Job::CANCELLED:
      return absl::StrCat(v1::Job::State_Name(job.state()), " ", job.step(),
                          " ", job.model_version());
    default:
      return "not ended";
  }
}

absl::StatusOr<std::string> Describe(Client& client, const std::string& name) {
  if (absl::StartsWith(name, "datasets/")) {
    auto dataset = client.GetDataset(name);
    if (!dataset.ok()) return dataset.status();
    return dataset->sha256();
  }
  if (absl::StartsWith(name, "jobs/")) {
    auto job = client.GetJob(name);
    if (!job.ok()) return job.status();
    return DescribeEnd(*job);
  }
  if (absl::StartsWith(name, "trainers/")) {
    auto trainer = client.GetTrainer(name);
    if (!trainer.ok()) return trainer.status();
    return trainer->model();
  }
  auto version = client.GetModelVersion(name);
  if (!version.ok()) return version.status();
  return version->sha256();
}

std::vector<std::string> HalfWritten(Client& client) {
  Findings findings;
  for (const auto& dataset :
       findings.Value("ListDatasets", client.ListDatasets())) {
    findings.Check(dataset.name(), ReadDataset(client, dataset.name()));
  }
  for (const auto& model : findings.Value("ListModels", client.ListModels())) {
    for (const auto& version :
         findings.Value(model.name(), client.ListModelVersions(model.name()))) {
      findings.Check(version.name(),
                     client.GetModelVersion(version.name()).status());
      findings.Check(version.name(), Export(client, version.name()));
    }
  }
  for (const auto& job : findings.Value("ListJobs", client.ListJobs())) {
    if (DescribeEnd(job) == "not ended") continue;
    findings.Check(job.name(), ReadEvents(client, job));
  }
  for (const auto& trainer :
       findings.Value("ListTrainers", client.ListTrainers())) {
    findings.Check(trainer.name(), client.GetTrainer(trainer.name()).status());
  }
  return findings.Take();
}

}  // namespace recurve::faults
