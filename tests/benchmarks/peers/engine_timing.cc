// Times work of the engine as a script asks for it, with one line of JSON for
// each line read:
//
//   {"prepare": {"kind": "inference", "hidden": 512, "layers": 2, "batch": 32,
//                "length": 128, "moved_bytes": 0}}    -> {"variant": "sru"}
//   {"time": 3}        -> {"seconds": 0.1} for three turns of what is prepared
//   {"memory": true}   -> {"bytes": 1000}, the most memory held since the last
//                         such request, or the start, over what was held then
//
// or {"error": "why"}. tests/benchmarks/peers/worker.py says the same for the
// peers; engine_timing --help has the subjects.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/schedule/device.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/serving_precision.h"
#include "kernels/precision.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"
#include "tests/benchmarks/peers/work.h"

ABSL_FLAG(std::string, subject, "sru",
          "sru or qrnn; products, the layers' matrix products alone; copy, of "
          "`moved_bytes`");
ABSL_FLAG(std::string, devices, "cpu:2", "as recurve_server's");
ABSL_FLAG(std::string, precision, "fp32",
          "fp32, bf16 or int8: of inference; training is as the devices "
          "multiply");
ABSL_FLAG(std::string, server, "",
          "HOST:PORT; sru and qrnn are asked of it, not of the engine here");

namespace recurve::peers {
namespace {

using Json = nlohmann::json;

absl::StatusOr<Kind> ParseKind(const std::string& name) {
  if (name == "inference") return Kind::kInference;
  if (name == "step") return Kind::kStep;
  if (name == "training") return Kind::kTraining;
  return absl::InvalidArgumentError(
      absl::StrCat("kind: ", name, "; inference, step and training are"));
}

// A line of /proc/self/status.
int64_t StatusBytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string key;
  int64_t kilobytes = 0;
  while (file >> key) {
    if (key == name + ":" && file >> kilobytes) return 1024 * kilobytes;
    std::getline(file, key);
  }
  return 0;
}

class Timer {
 public:
  explicit Timer(std::unique_ptr<DevicePool> pool) : pool_(std::move(pool)) {
    WatchMemory();
  }

  absl::StatusOr<Json> Answer(const Json& request) {
    if (request.contains("prepare")) return Prepare(request.at("prepare"));
    if (request.contains("time")) return Time(request.at("time"));
    if (request.contains("memory")) return Memory();
    return absl::InvalidArgumentError("prepare, time or memory");
  }

 private:
  absl::StatusOr<Json> Prepare(const Json& request) {
    work_.reset();
    const Shape shape{request.at("hidden"), request.at("layers"),
                      request.at("batch"), request.at("length")};
    ASSIGN_OR_RETURN(const Kind kind, ParseKind(request.at("kind")));
    ASSIGN_OR_RETURN(work_, MakeWork(kind, shape, request));
    return Json{{"variant", absl::GetFlag(FLAGS_subject)}};
  }

  absl::StatusOr<std::unique_ptr<Work>> MakeWork(Kind kind, const Shape& shape,
                                                 const Json& request) {
    const std::string subject = absl::GetFlag(FLAGS_subject);
    if (subject == "products") return ProductsWork(*pool_, kind, shape);
    if (subject == "copy") return CopyWork(*pool_, request.at("moved_bytes"));
    const std::string server = absl::GetFlag(FLAGS_server);
    if (!server.empty()) return ServiceWork(server, subject, kind, shape);
    ASSIGN_OR_RETURN(const Precision precision,
                     ParsePrecision(absl::GetFlag(FLAGS_precision)));
    return EngineWork(*pool_, subject, precision, kind, shape);
  }

  absl::StatusOr<Json> Time(int64_t turns) {
    if (work_ == nullptr) {
      return absl::FailedPreconditionError("nothing is prepared");
    }
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(work_->Run(turns));
    return Json{{"seconds", absl::ToDoubleSeconds(absl::Now() - begin)}};
  }

  Json Memory() {
    const int64_t growth = StatusBytes("VmHWM") - watched_from_bytes_;
    WatchMemory();
    return Json{{"bytes", growth}};
  }

  void WatchMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM starts anew
    watched_from_bytes_ = StatusBytes("VmRSS");
  }

  const std::unique_ptr<DevicePool> pool_;
  int64_t watched_from_bytes_ = 0;
  std::unique_ptr<Work> work_;
};

absl::Status AnswerLines() {
  ASSIGN_OR_RETURN(const auto specs,
                   ParseDevices(absl::GetFlag(FLAGS_devices)));
  ASSIGN_OR_RETURN(auto pool, DevicePool::Create(specs));
  Timer timer(std::move(pool));
  for (std::string line; std::getline(std::cin, line);) {
    const auto answer = timer.Answer(Json::parse(line));
    std::cout << (answer.ok() ? *answer
                              : Json{{"error", answer.status().ToString()}})
              << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace recurve::peers

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Answers requests for times, lines of JSON; see the source.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = recurve::peers::AnswerLines();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
