#include "engine/schedule/device_budgets.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/schedule/format_bytes.h"
#include "engine/schedule/memory_plan.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// The kernels take bf16 and asynchronous copies for granted.
constexpr int kLeastCapabilityMajor = 8;

bool IsCpu(const DeviceSpec& spec) { return spec.kind == DeviceKind::kCpu; }

absl::Status Bad(const DeviceSpec& spec, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", spec.text, "\": ", why));
}

absl::Status CheckCapability(const DeviceSpec& spec, const Gpu& gpu) {
  if (gpu.capability_major >= kLeastCapabilityMajor) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "device \"", spec.text, "\": ", gpu.name, " has compute capability ",
      gpu.capability_major, ".", gpu.capability_minor, "; the kernels need ",
      kLeastCapabilityMajor, ".0 or above"));
}

// Equal shares of `bytes`, less what is given already, for those of `on` that
// have no budget.
void Share(int64_t bytes, absl::Span<DeviceSpec* const> on) {
  int64_t without = 0;
  for (const DeviceSpec* spec : on) {
    bytes -= spec->memory_bytes;
    without += spec->memory_bytes == 0;
  }
  for (DeviceSpec* spec : on) {
    // A byte is too little, as CheckWorkspace says; 0 would be without limit.
    if (spec->memory_bytes == 0) {
      spec->memory_bytes = std::max<int64_t>(bytes / without, 1);
    }
  }
}

absl::Status ShareGpu(const Gpu& gpu, absl::Span<DeviceSpec* const> on) {
  int64_t given = 0;
  for (const DeviceSpec* spec : on) given += spec->memory_bytes;
  if (given > gpu.free_bytes) {
    return Bad(*on.back(),
               absl::StrCat("the devices on this GPU have budgets of ",
                            FormatBytes(given), " in all; ",
                            FormatBytes(gpu.free_bytes), " of its ",
                            FormatBytes(gpu.memory_bytes), " are free"));
  }
  Share(gpu.free_bytes / 16 * 15, on);
  return absl::OkStatus();
}

absl::Status CheckWorkspace(const DeviceSpec& spec) {
  const int64_t workspace = WorkspacePlan(spec).total();
  if (spec.memory_bytes > workspace) return absl::OkStatus();
  return Bad(
      spec,
      absl::StrCat("its budget is ", FormatBytes(spec.memory_bytes),
                   ", of which its workspace takes ", FormatBytes(workspace),
                   "; give it more by memory=SIZE"));
}

}  // namespace

absl::Status SetBudgets(std::vector<DeviceSpec>& specs, int64_t host_bytes,
                        const std::map<int, Gpu>& gpus) {
  const int64_t cpus = std::count_if(specs.begin(), specs.end(), IsCpu);
  std::map<int, std::vector<DeviceSpec*>> on_gpu;
  for (DeviceSpec& spec : specs) {
    if (!IsCpu(spec)) {
      RETURN_IF_ERROR(CheckCapability(spec, gpus.at(spec.ordinal)));
      on_gpu[spec.ordinal].push_back(&spec);
    } else if (spec.memory_bytes == 0) {
      spec.memory_bytes = host_bytes / 4 * 3 / cpus;
    }
  }
  for (const auto& [ordinal, devices] : on_gpu) {
    RETURN_IF_ERROR(ShareGpu(gpus.at(ordinal), devices));
  }
  for (const DeviceSpec& spec : specs) RETURN_IF_ERROR(CheckWorkspace(spec));
  return absl::OkStatus();
}

}  // namespace recurve
