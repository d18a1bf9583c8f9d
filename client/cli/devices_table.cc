#include "client/cli/devices_table.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/schedule/format_bytes.h"

namespace recurve::cli {
namespace {

// Columns as wide as their widest cell.
class Table {
 public:
  enum class Align { kLeft, kRight };
  using Row = std::vector<std::string>;

  Table(Row header, std::vector<Align> aligns)
      : aligns_(std::move(aligns)), rows_{std::move(header)} {}

  void Add(Row row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }

  std::string Text() const {
    std::string text;
    for (const Row& row : rows_) absl::StrAppend(&text, Line(row), "\n");
    return text;
  }

 private:
  std::string Line(const Row& row) const {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(Width(c) - row[c].size(), ' ');
      if (c > 0) line += "  ";
      if (aligns_[c] == Align::kRight) {
        absl::StrAppend(&line, padding, row[c]);
      } else {
        line += row[c];
        if (c + 1 < row.size()) line += padding;
      }
    }
    return line;
  }

  size_t Width(size_t column) const {
    size_t width = 0;
    for (const Row& row : rows_) width = std::max(width, row[column].size());
    return width;
  }

  const std::vector<Align> aligns_;
  std::vector<Row> rows_;
};

constexpr Table::Align kLeft = Table::Align::kLeft;
constexpr Table::Align kRight = Table::Align::kRight;

std::string Percent(double share) {
  return absl::StrFormat("%.0f%%", 100 * share);
}

std::string Loads(const v1::ListDevicesResponse& devices) {
  Table table({"DEVICE", "SPEC", "BUSY", "SERVING", "ROWS/S", "QUEUED", "USED",
               "RESERVED", "PEAK", "BUDGET", "FOR TRAINING"},
              {kLeft, kLeft, kRight, kRight, kRight, kRight, kRight, kRight,
               kRight, kRight, kRight});
  for (const v1::Device& device : devices.devices()) {
    const auto limit = [&](int64_t bytes) {
      return device.budget_bytes() > 0 ? FormatBytes(bytes) : "unlimited";
    };
    table.Add({device.name(), device.spec(), Percent(device.busy_share()),
               Percent(device.serving_share()),
               absl::StrFormat("%.0f", device.rows_per_second()),
               absl::StrCat(device.queued_tasks()),
               FormatBytes(device.memory_bytes()),
               FormatBytes(device.reserved_bytes()),
               FormatBytes(device.reserved_high_water_bytes()),
               limit(device.budget_bytes()),
               limit(device.training_budget_bytes())});
  }
  return table.Text();
}

// "weights 1.0 MiB, activations 2.0 MiB".
std::string Kinds(const v1::MemoryUse& use) {
  const std::pair<absl::string_view, int64_t> kinds[] = {
      {"weights", use.weights_bytes()},
      {"gradients", use.gradients_bytes()},
      {"optimizer", use.optimizer_bytes()},
      {"activations", use.activations_bytes()},
      {"workspace", use.workspace_bytes()},
      {"sessions", use.sessions_bytes()}};
  std::vector<std::string> texts;
  for (const auto& [kind, bytes] : kinds) {
    if (bytes > 0) texts.push_back(absl::StrCat(kind, " ", FormatBytes(bytes)));
  }
  return absl::StrJoin(texts, ", ");
}

std::string Owners(const v1::ListDevicesResponse& devices) {
  Table table({"DEVICE", "OWNER", "PLANNED", "MEASURED", "PEAK", "PLANNED FOR"},
              {kLeft, kLeft, kRight, kRight, kRight, kLeft});
  for (const v1::Device& device : devices.devices()) {
    for (const v1::MemoryOwner& owner : device.owners()) {
      table.Add(
          {device.name(), owner.owner(), FormatBytes(owner.planned_bytes()),
           FormatBytes(owner.used_bytes()),
           FormatBytes(owner.used_high_water_bytes()), Kinds(owner.planned())});
    }
  }
  return table.empty() ? "" : absl::StrCat("\n", table.Text());
}

std::string Waiting(const v1::ListDevicesResponse& devices, absl::Time now) {
  Table table({"DEVICE", "WAITS", "FOR", "SINCE", "BECAUSE IT"},
              {kLeft, kLeft, kRight, kRight, kLeft});
  for (const v1::Device& device : devices.devices()) {
    for (const v1::MemoryWaiter& waiter : device.waiting()) {
      const absl::Time since = absl::FromUnixSeconds(waiter.since().seconds());
      table.Add({device.name(), waiter.owner(), FormatBytes(waiter.bytes()),
                 absl::StrCat(absl::ToInt64Seconds(now - since), " s"),
                 waiter.reason()});
    }
  }
  return table.empty() ? "" : absl::StrCat("\n", table.Text());
}

}  // namespace

std::string DevicesTable(const v1::ListDevicesResponse& devices,
                         absl::Time now) {
  return absl::StrCat(Loads(devices), Owners(devices), Waiting(devices, now));
}

}  // namespace recurve::cli
