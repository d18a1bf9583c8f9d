#include "server/flags.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "kernels/status.h"
#include "server/config.pb.h"

namespace recurve::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool IsBool(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

absl::Status BadValue(const FieldDescriptor& field, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat("--", field.name(), ": \"",
                                                 value, "\" is not a ",
                                                 field.cpp_type_name()));
}

absl::Status SetField(const FieldDescriptor& field, const std::string& value,
                      Message* message) {
  const auto& reflection = *message->GetReflection();
  int64_t number = 0;
  int32_t small = 0;
  double real = 0;
  bool truth = false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(message, &field, value);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_INT64:
      if (!absl::SimpleAtoi(value, &number)) return BadValue(field, value);
      reflection.SetInt64(message, &field, number);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_INT32:
      if (!absl::SimpleAtoi(value, &small)) return BadValue(field, value);
      reflection.SetInt32(message, &field, small);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!absl::SimpleAtod(value, &real)) return BadValue(field, value);
      reflection.SetDouble(message, &field, real);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!absl::SimpleAtob(value, &truth)) return BadValue(field, value);
      reflection.SetBool(message, &field, truth);
      return absl::OkStatus();
    default:
      return BadValue(field, value);
  }
}

std::string DefaultOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return field.default_value_string();
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(field.default_value_int64());
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(field.default_value_int32());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(field.default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool() ? "true" : "false";
    default:
      return "";
  }
}

// Finds the field and the value of arguments[i], and steps over the argument
// after it if that is the value.
absl::Status ParseFlag(absl::Span<const std::string> arguments, size_t& i,
                       Message* message) {
  absl::string_view flag = arguments[i];
  if (!absl::ConsumePrefix(&flag, "--") || flag.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", arguments[i], "\" is not a flag"));
  }
  const size_t equals = flag.find('=');
  const bool has_value = equals != flag.npos;
  const std::string name(flag.substr(0, equals));
  const auto& descriptor = *message->GetDescriptor();
  if (const FieldDescriptor* field = descriptor.FindFieldByName(name)) {
    if (has_value) {
      return SetField(*field, std::string(flag.substr(equals + 1)), message);
    }
    if (IsBool(*field)) return SetField(*field, "true", message);
    if (++i < arguments.size()) return SetField(*field, arguments[i], message);
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, ": a value must follow"));
  }
  const FieldDescriptor* negated =
      absl::StartsWith(name, "no") ? descriptor.FindFieldByName(name.substr(2))
                                   : nullptr;
  if (negated != nullptr && IsBool(*negated) && !has_value) {
    return SetField(*negated, "false", message);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no flag --", name, "; --help lists them"));
}

}  // namespace

absl::Status ParseFlags(absl::Span<const std::string> arguments,
                        Message* message) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    RETURN_IF_ERROR(ParseFlag(arguments, i, message));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> ParseDurationFlag(absl::string_view flag,
                                                 absl::string_view value,
                                                 absl::Duration least) {
  absl::Duration duration;
  if (!absl::ParseDuration(value, &duration) || duration < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, ": \"", value, "\" is not a duration such as 30s or 1m30s",
        ", of ", absl::FormatDuration(least), " or more"));
  }
  return duration;
}

std::string DescribeFlags(const Message& message) {
  std::string text;
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const std::string value = DefaultOf(field);
    absl::StrAppend(&text, "  --", field.name());
    if (!value.empty()) absl::StrAppend(&text, "=", value);
    absl::StrAppend(&text, "\n      ", field.options().GetExtension(help),
                    "\n");
  }
  return text;
}

}  // namespace recurve::server
