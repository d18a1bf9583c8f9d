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
  return absl::InvalidArgumentError(absl::StrCat(
      "device \"", entry, "\": ", why,
      "; a device is cpu:THREADS[:memory=SIZE][:products=fp32|bf16] or "
      "cuda:ORDINAL[:memory=SIZE][:products=fp32|tf32|bf16|fp16]"));
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

absl::StatusOr<int> ParseCount(absl::string_view entry, absl::string_view text,
                               absl::string_view what, int least, int most) {
  int64_t count = 0;
  if (ParseNumber(text, &count) && least <= count && count <= most) {
    return static_cast<int>(count);
  }
  return Bad(entry, absl::StrCat(what, " is \"", text, "\", not ", least,
                                 " to ", most));
}

absl::StatusOr<cuda::ProductPrecision> ParsePrecision(const DeviceSpec& spec,
                                                      absl::string_view text) {
  using cuda::ProductPrecision;
  const bool cuda = spec.kind == DeviceKind::kCuda;
  if (text == "fp32") return ProductPrecision::kFp32;
  if (text == "bf16") return ProductPrecision::kBf16;
  if (cuda && text == "tf32") return ProductPrecision::kTf32;
  if (cuda && text == "fp16") return ProductPrecision::kFp16;
  return Bad(spec.text,
             absl::StrCat("products \"", text, "\" are not ",
                          cuda ? "fp32, tf32, bf16 or fp16" : "fp32 or bf16"));
}

absl::Status ParseOption(absl::string_view option, DeviceSpec& spec) {
  absl::string_view value = option;
  if (absl::ConsumePrefix(&value, "memory=")) {
    ASSIGN_OR_RETURN(spec.memory_bytes, ParseSize(spec.text, value));
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&value, "products=")) {
    ASSIGN_OR_RETURN(spec.products, ParsePrecision(spec, value));
    return absl::OkStatus();
  }
  return Bad(spec.text, absl::StrCat("unknown option \"", option, "\""));
}

// Its first two parts.
absl::Status ParseKind(absl::string_view kind, absl::string_view number,
                       DeviceSpec& spec) {
  if (kind == "cuda") {
    spec.kind = DeviceKind::kCuda;
    ASSIGN_OR_RETURN(spec.ordinal, ParseCount(spec.text, number, "the ordinal",
                                              0, kMaxDevices - 1));
    return absl::OkStatus();
  }
  if (kind != "cpu") return Bad(spec.text, "not a device");
  ASSIGN_OR_RETURN(spec.threads,
                   ParseCount(spec.text, number, "the number of threads", 1,
                              kMaxDeviceThreads));
  return absl::OkStatus();
}

absl::StatusOr<DeviceSpec> ParseDevice(absl::string_view entry) {
  const std::vector<absl::string_view> parts = absl::StrSplit(entry, ':');
  if (parts.size() < 2) return Bad(entry, "not a device");
  DeviceSpec spec;
  spec.text = std::string(entry);
  RETURN_IF_ERROR(ParseKind(parts[0], parts[1], spec));
  for (size_t i = 2; i < parts.size(); ++i) {
    const absl::string_view name = parts[i].substr(0, parts[i].find('='));
    for (size_t j = 2; j < i; ++j) {
      if (parts[j].substr(0, parts[j].find('=')) != name) continue;
      return Bad(entry, absl::StrCat("option \"", name, "\" is there twice"));
    }
    RETURN_IF_ERROR(ParseOption(parts[i], spec));
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

std::vector<int> TrainingDevices(absl::Span<const DeviceSpec> specs) {
  const auto is_cuda = [](const DeviceSpec& spec) {
    return spec.kind == DeviceKind::kCuda;
  };
  auto first = std::find_if(specs.begin(), specs.end(), is_cuda);
  if (first == specs.end()) first = specs.begin();
  std::vector<int> places;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].kind == first->kind && specs[i].products == first->products) {
      places.push_back(static_cast<int>(i));
    }
  }
  return places;
}

}  // namespace recurve
