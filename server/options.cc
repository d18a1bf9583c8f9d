#include "server/options.h"

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/file.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "kernels/status.h"
#include "server/flags.h"

namespace recurve::server {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20;

// Keeps the first error of a textproto, with its place.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) return;
    text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string Resolve(const std::string& path,
                    const std::string& working_directory) {
  if (path.empty() || working_directory.empty()) return path;
  return (std::filesystem::path(working_directory) / path)
      .lexically_normal()
      .string();
}

// The fields that name files, but for data_dir, which always has a value.
constexpr const char* kPaths[] = {"data_root", "tls_certificate", "tls_key",
                                  "tls_client_ca", "tokens_file"};

// Of a field that is set.
void ResolveField(const char* name, const std::string& working_directory,
                  ServerConfig& config) {
  const auto& reflection = *config.GetReflection();
  const auto* const field = config.GetDescriptor()->FindFieldByName(name);
  if (!reflection.HasField(config, field)) return;
  reflection.SetString(
      &config, field,
      Resolve(reflection.GetString(config, field), working_directory));
}

absl::StatusOr<ServerConfig> ReadConfig(const std::string& path) {
  auto text = ReadFile(path, kMaxConfigBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--config: ", text.status().message()));
  }
  ServerConfig config;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(*text, &config)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.text()));
  }
  return config;
}

// Takes --config out of the arguments; empty if it is not there.
absl::StatusOr<std::string> TakeConfigFlag(
    std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (absl::ConsumePrefix(&argument, "--config=")) {
      const std::string path(argument);
      arguments.erase(arguments.begin() + i);
      return path;
    }
    if (argument != "--config") continue;
    if (i + 1 == arguments.size()) {
      return absl::InvalidArgumentError("--config: a value must follow");
    }
    const std::string path = arguments[i + 1];
    arguments.erase(arguments.begin() + i, arguments.begin() + i + 2);
    return path;
  }
  return std::string();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(absl::Span<const std::string> given,
                                     const std::string& working_directory) {
  std::vector<std::string> arguments(given.begin(), given.end());
  ASSIGN_OR_RETURN(const std::string file, TakeConfigFlag(arguments));
  Options options;
  if (!file.empty()) {
    ASSIGN_OR_RETURN(options.config,
                     ReadConfig(Resolve(file, working_directory)));
  }
  RETURN_IF_ERROR(ParseFlags(arguments, &options.config));
  ServerConfig& config = options.config;
  config.set_data_dir(Resolve(config.data_dir(), working_directory));
  for (const char* name : kPaths) ResolveField(name, working_directory, config);
  ASSIGN_OR_RETURN(options.drain_timeout,
                   ParseDurationFlag("drain_timeout", config.drain_timeout(),
                                     absl::ZeroDuration()));
  return options;
}

std::string Help() {
  return absl::StrCat(
      "Trains and serves recurrent models over gRPC.\n\n"
      "  recurve_server --listen=127.0.0.1:50051 --data_dir=data "
      "--devices=cpu:1,cpu:1\n\n"
      "Prints \"listening on HOST:PORT\" when it is ready; SIGTERM drains it.\n"
      "Flags are written --flag=value or --flag value:\n\n"
      "  --config\n      textproto file (recurve.server.ServerConfig) whose "
      "fields are the flags below;\n      flags win\n",
      DescribeFlags(ServerConfig()));
}

}  // namespace recurve::server
