#include "client/cli/files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"

namespace recurve::cli {
namespace {

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (text.empty()) {
      text = absl::StrCat(line + 1, ":", column + 1, ": ", message);
    }
  }
  std::string text;
};

constexpr absl::string_view kNpyMagic("\x93NUMPY\x01\x00", 8);

absl::Status NotAFeatureArray(const std::string& path,
                              absl::string_view header) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": wanted a 2-dimensional float32 .npy array in C order "
                   "(numpy.save of an array with dtype '<f4'), found: ",
                   absl::StripAsciiWhitespace(header).substr(0, 120)));
}

// The number after `*at`, which moves behind it and a comma.
bool TakeNumber(absl::string_view* at, int64_t* value) {
  const size_t end = at->find_first_not_of("0123456789");
  if (end == 0 || end == absl::string_view::npos) return false;
  if (!absl::SimpleAtoi(at->substr(0, end), value)) return false;
  at->remove_prefix(end);
  while (!at->empty() && (at->front() == ',' || at->front() == ' ')) {
    at->remove_prefix(1);
  }
  return true;
}

bool ParseShape(absl::string_view header, FeatureFile* file) {
  constexpr absl::string_view kKey = "'shape': (";
  const size_t found = header.find(kKey);
  if (found == absl::string_view::npos) return false;
  absl::string_view at = header.substr(found + kKey.size());
  return TakeNumber(&at, &file->rows) && TakeNumber(&at, &file->columns) &&
         absl::StartsWith(at, ")");
}

}  // namespace

std::string UserPath(absl::string_view path) {
  const char* base = std::getenv("BUILD_WORKING_DIRECTORY");
  if (base == nullptr) return std::string(path);
  return (std::filesystem::path(base) / std::string(path)).string();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(path + " is a directory, not a file");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    const std::string why = absl::StrCat(path, ": ", std::strerror(errno));
    return errno == EACCES ? absl::PermissionDeniedError(why)
                           : absl::NotFoundError(why);
  }
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return std::move(bytes).str();
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", error.message()));
  }
  return absl::OkStatus();
}

absl::Status ReadTextProto(const std::string& path,
                           google::protobuf::Message& message) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(*text, &message)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.text, " (wanted a ",
                     std::string(message.GetDescriptor()->full_name()), ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadVocabulary(
    const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  const auto array = nlohmann::json::parse(*text, nullptr, false);
  const auto is_string = [](const nlohmann::json& item) {
    return item.is_string();
  };
  if (!array.is_array() ||
      !std::all_of(array.begin(), array.end(), is_string)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wanted a JSON array of strings"));
  }
  return array.get<std::vector<std::string>>();
}

absl::StatusOr<FeatureFile> ReadFeatures(const std::string& path) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() < 10 || !absl::StartsWith(*bytes, kNpyMagic)) {
    return NotAFeatureArray(path, "another kind of file");
  }
  const size_t header_size = static_cast<unsigned char>((*bytes)[8]) +
                             256 * static_cast<unsigned char>((*bytes)[9]);
  const absl::string_view header =
      absl::string_view(*bytes).substr(10, header_size);
  FeatureFile file;
  if (!absl::StrContains(header, "'descr': '<f4'") ||
      !absl::StrContains(header, "'fortran_order': False") ||
      !ParseShape(header, &file)) {
    return NotAFeatureArray(path, header);
  }
  file.bytes = bytes->substr(10 + header.size());
  const int64_t numbers = static_cast<int64_t>(file.bytes.size() / 4);
  if (file.columns == 0 || numbers / file.columns != file.rows ||
      file.bytes.size() != size_t(file.rows) * file.columns * 4) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", file.bytes.size(), " bytes of data do not make a ",
        file.rows, " x ", file.columns, " float32 array"));
  }
  return file;
}

}  // namespace recurve::cli
