#include "server/kserve/classification.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "engine/serve/output_selection.h"

namespace recurve::server::kserve {
namespace {

void AppendElement(absl::string_view text, std::string* bytes) {
  const uint32_t length = static_cast<uint32_t>(text.size());
  bytes->append(reinterpret_cast<const char*>(&length), sizeof(length));
  absl::StrAppend(bytes, text);
}

}  // namespace

void AppendClassification(absl::Span<const float> row, int64_t count,
                          absl::Span<const std::string> labels,
                          std::string* bytes) {
  std::vector<int32_t> classes(count);
  std::vector<float> unused(count);
  TopK(row, /*log_sum_exp=*/0, absl::MakeSpan(classes), absl::MakeSpan(unused));
  for (const int32_t index : classes) {
    std::string text = absl::StrFormat("%f:%d", row[index], index);
    if (!labels.empty()) absl::StrAppend(&text, ":", labels[index]);
    AppendElement(text, bytes);
  }
}

void AppendNoClassification(int64_t count, std::string* bytes) {
  for (int64_t i = 0; i < count; ++i) AppendElement("", bytes);
}

}  // namespace recurve::server::kserve
