#include "server/request_strings.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace recurve::server {

absl::Status CheckStrings(const google::protobuf::Message& message) {
  using Field = google::protobuf::FieldDescriptor;
  const auto& descriptor = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const Field& field = *descriptor.field(i);
    if (field.type() != Field::TYPE_STRING || field.is_repeated()) continue;
    std::string scratch;
    const size_t bytes =
        reflection.GetStringReference(message, &field, &scratch).size();
    if (bytes <= kMaxStringBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field.name(), ": has ", bytes, " bytes, the limit is ",
                     kMaxStringBytes));
  }
  return absl::OkStatus();
}

}  // namespace recurve::server
