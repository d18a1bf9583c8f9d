#include "client/cli/session.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/files.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"

namespace recurve::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool Is64Bit(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

nlohmann::json ToNumber(const nlohmann::json& text) {
  return text.is_string() ? nlohmann::json::parse(text.get<std::string>())
                          : text;
}

// Protobuf's mapping writes 64-bit numbers as strings for the sake of
// JavaScript; scripts that do arithmetic want numbers.
void MakeNumbers(const google::protobuf::Descriptor& type,
                 nlohmann::json& object) {
  if (!object.is_object()) return;  // well-known types are written as strings
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto found = object.find(field.name());
    if (found == object.end()) continue;
    const bool message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!message && !Is64Bit(field)) continue;
    const auto convert = [&](nlohmann::json& value) {
      if (message) {
        MakeNumbers(*field.message_type(), value);
      } else {
        value = ToNumber(value);
      }
    };
    if (field.is_repeated()) {
      for (nlohmann::json& value : *found) convert(value);
    } else {
      convert(*found);
    }
  }
}

}  // namespace

absl::Status Session::Prepare() {
  if (timeout_seconds > 0) options_.timeout = absl::Seconds(timeout_seconds);
  options_.tls = tls;
  const std::pair<const std::string*, std::string*> files[] = {
      {&tls_ca, &options_.tls_ca},
      {&tls_certificate, &options_.tls_certificate},
      {&tls_key, &options_.tls_key},
      {&token_file, &options_.token}};
  for (const auto& [path, text] : files) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> read = ReadFile(*path);
    if (!read.ok()) return read.status();
    *text = *std::move(read);
  }
  if (const char* const token = getenv("RECURVE_TOKEN");
      token != nullptr && token_file.empty()) {
    options_.token = token;
  }
  absl::StripAsciiWhitespace(&options_.token);
  return absl::OkStatus();
}

Client& Session::client() {
  if (client_ == nullptr) client_ = Client::Connect(server, options_);
  return *client_;
}

std::string ResourceName(absl::string_view collection, absl::string_view name) {
  const std::string prefix = absl::StrCat(collection, "/");
  return absl::StartsWith(name, prefix) ? std::string(name)
                                        : absl::StrCat(prefix, name);
}

nlohmann::json ToJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return {{"error", status.ToString()}};
  nlohmann::json object = nlohmann::json::parse(text);
  MakeNumbers(*message.GetDescriptor(), object);
  return object;
}

void PrintDeleted(const Session& session, const std::string& name) {
  if (session.json) return PrintJson({{"deleted", name}});
  absl::PrintF("deleted %s\n", name);
}

void PrintJson(const nlohmann::json& object) {
  // Generated text need not be UTF-8; what is not becomes U+FFFD.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  std::printf("%s\n", object.dump(-1, ' ', false, kReplace).c_str());
}

CLI::App* AddCommand(CLI::App& app, Session& session, const std::string& name,
                     const std::string& description, const std::string& example,
                     std::function<absl::Status()> action) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer("Example:\n  " + example);
  command->callback(
      [&session, action = std::move(action)] { session.run = action; });
  return command;
}

}  // namespace recurve::cli
