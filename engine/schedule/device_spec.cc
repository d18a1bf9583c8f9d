#include "engine/schedule/device_spec.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status Bad(absl::string_view entry, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", entry, "\": ", why,
                   "; a device is cpu:THREADS or cpu:THREADS:memory=SIZE"));
}

struct Unit {
  absl::string_view suffix;
  int64_t bytes;
};

constexpr Unit kUnits[] = {
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

// Digits alone: SimpleAtoi would take spaces and signs too.
bool ParseNumber(absl::string_view text, int64_t* number) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, number);
}

absl::StatusOr<int64_t> ParseSize(absl::string_view entry,
                                  absl::string_view size) {
  absl::string_view digits = size;
  int64_t unit = 1;
  for (const Unit& candidate : kUnits) {
    if (absl::ConsumeSuffix(&digits, candidate.suffix)) {
      unit = candidate.bytes;
      break;
    }
  }
  int64_t count = 0;
  if (!ParseNumber(digits, &count) || count == 0 ||
      count > std::numeric_limits<int64_t>::max() / unit) {
    return Bad(entry, absl::StrCat("memory \"", size,
                                   "\" is not a positive number of bytes, KiB, "
                                   "MiB, GiB, TiB, KB, MB, GB or TB"));
  }
  return count * unit;
}

absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view entry) {
  const std::vector<absl::string_view> parts = absl::StrSplit(entry, ':');
  if (parts[0] == "cuda") {
    return absl::UnavailableError(absl::StrCat(
        "device \"", entry, "\": this build has no CUDA; use cpu:THREADS"));
  }
  if (parts[0] != "cpu" || parts.size() < 2 || parts.size() > 3) {
    return Bad(entry, "not a device");
  }
  DeviceSpec spec;
  spec.text = std::string(entry);
  int64_t threads = 0;
  if (!ParseNumber(parts[1], &threads) || threads < 1 ||
      threads > kMaxDeviceThreads) {
    return Bad(entry, absl::StrCat("the number of threads is \"", parts[1],
                                   "\", not 1 to ", kMaxDeviceThreads));
  }
  spec.threads = static_cast<int>(threads);
  if (parts.size() == 3) {
    absl::string_view size = parts[2];
    if (!absl::ConsumePrefix(&size, "memory=")) {
      return Bad(entry, absl::StrCat("unknown option \"", parts[2], "\""));
    }
    ASSIGN_OR_RETURN(spec.memory_bytes, ParseSize(entry, size));
  }
  return spec;
}

DeviceSpec AllCores() {
  DeviceSpec spec;
  spec.threads =
      std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1,
                 kMaxDeviceThreads);
  spec.text = absl::StrCat("cpu:", spec.threads);
  return spec;
}

}  // namespace

absl::StatusOr<std::vector<DeviceSpec>> ParseDevices(absl::string_view flag) {
  if (flag.empty()) return std::vector<DeviceSpec>{AllCores()};
  std::vector<DeviceSpec> specs;
  for (absl::string_view entry : absl::StrSplit(flag, ',')) {
    if (specs.size() == kMaxDevices) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxDevices, " devices"));
    }
    ASSIGN_OR_RETURN(DeviceSpec spec, ParseDevice(entry));
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace recurve
