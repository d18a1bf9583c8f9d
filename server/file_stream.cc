#include "server/file_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/serve/version_files.h"

namespace recurve::server {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

}  // namespace

OpenFile::OpenFile(OpenFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

OpenFile::~OpenFile() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<TemporaryFile> TemporaryFile::Create(
    const std::string& directory) {
  std::string path = absl::StrCat(directory, "/XXXXXX");
  OpenFile file(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) return SystemError("creating a file in", directory);
  return TemporaryFile(std::move(path), std::move(file));
}

TemporaryFile::TemporaryFile(std::string path, OpenFile file)
    : path_(std::move(path)), file_(std::move(file)) {}

TemporaryFile::~TemporaryFile() {
  if (file_.get() >= 0) unlink(path_.c_str());
}

absl::Status TemporaryFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == ENOSPC) {
      return absl::ResourceExhaustedError("the server's disk is full");
    }
    if (written < 0) return SystemError("writing", path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<VersionFileStream>> VersionFileStream::Open(
    const ModelVersion& version) {
  auto stream = std::make_unique<VersionFileStream>();
  for (const char* name : {kWeightsFile, kConfigFile, kVocabularyFile}) {
    if (name == kVocabularyFile && version.vocabulary.empty()) continue;
    const std::string path = absl::StrCat(version.directory, "/", name);
    OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
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
  if (bytes < 0) return SystemError("reading", file.name);
  chunk->resize(static_cast<size_t>(bytes));
  offset_ += bytes;
  if (bytes > 0) return true;
  ++current_;
  offset_ = 0;
  return Next(file_name, chunk);
}

}  // namespace recurve::server
