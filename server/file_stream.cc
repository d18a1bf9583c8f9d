#include "server/file_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/directory.h"
#include "engine/base/file_calls.h"
#include "engine/serve/version_files.h"
#include "kernels/status.h"

namespace recurve::server {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

}  // namespace

absl::StatusOr<TemporaryFile> TemporaryFile::Create(
    const std::string& directory) {
  std::string path = AsidePath(absl::StrCat(directory, "/file"));
  ASSIGN_OR_RETURN(AppendFile file, AppendFile::Create(path));
  return TemporaryFile(std::move(path), std::move(file));
}

TemporaryFile::TemporaryFile(std::string path, AppendFile file)
    : path_(std::move(path)), file_(std::move(file)) {}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::exchange(other.path_, "")), file_(std::move(other.file_)) {}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) file_calls().Unlink(path_.c_str());
}

absl::Status TemporaryFile::Append(absl::string_view bytes) {
  return file_.Append(bytes);
}

absl::StatusOr<std::unique_ptr<VersionFileStream>> VersionFileStream::Open(
    const ModelVersion& version) {
  auto stream = std::make_unique<VersionFileStream>();
  for (const char* name : {kWeightsFile, kConfigFile, kVocabularyFile}) {
    if (name == kVocabularyFile && version.vocabulary.empty()) continue;
    const std::string path = absl::StrCat(version.directory, "/", name);
    FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) {
      const int error = errno;
      if (version.deleted()) {
        return absl::NotFoundError(absl::StrCat(version.name, " was deleted"));
      }
      return absl::DataLossError(
          absl::StrCat(path, ": ", std::strerror(error)));
    }
    stream->files_.push_back({name, std::move(file)});
  }
  return stream;
}

absl::StatusOr<bool> VersionFileStream::Next(std::string* file_name,
                                             std::string* chunk) {
  if (current_ == files_.size()) return false;
  const File& file = files_[current_];
  if (offset_ == 0) *file_name = file.name;
  chunk->resize(kChunkBytes);
  ssize_t bytes = 0;
  do {
    bytes = pread(file.file.get(), chunk->data(), chunk->size(), offset_);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return SystemError("read", file.name);
  chunk->resize(static_cast<size_t>(bytes));
  offset_ += bytes;
  if (bytes > 0) return true;
  ++current_;
  offset_ = 0;
  return Next(file_name, chunk);
}

}  // namespace recurve::server
