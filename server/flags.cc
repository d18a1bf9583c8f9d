#include "server/flags.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
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
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool() ? "true" : "false";
    default:
      return "";
  }
}

}  // namespace

absl::Status ParseFlags(absl::Span<const std::string> arguments,
                        Message* message) {
  const auto& descriptor = *message->GetDescriptor();
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view flag = arguments[i];
    if (!absl::ConsumePrefix(&flag, "--") || flag.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", arguments[i], "\" is not a flag"));
    }
    const size_t equals = flag.find('=');
    const std::string name(flag.substr(0, equals));
    const FieldDescriptor* field = descriptor.FindFieldByName(name);
    std::string value;
    if (field == nullptr && equals == flag.npos &&
        absl::StartsWith(name, "no")) {
      field = descriptor.FindFieldByName(name.substr(2));
      if (field != nullptr && !IsBool(*field)) field = nullptr;
      value = "false";
    } else if (field != nullptr && equals != flag.npos) {
      value = std::string(flag.substr(equals + 1));
    } else if (field != nullptr && IsBool(*field)) {
      value = "true";
    } else if (field != nullptr) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, ": a value must follow"));
      }
      value = arguments[i];
    }
    if (field == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no flag --", name, "; --help lists them"));
    }
    if (absl::Status status = SetField(*field, value, message); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
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
