#include "server/kserve/shared_memory.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"
#include "server/request_strings.h"

namespace recurve::server::kserve {
namespace {

// "/name" or "name" -> "name".
absl::StatusOr<std::string> ObjectName(absl::string_view key) {
  const absl::string_view given = key;
  while (!key.empty() && key[0] == '/') key.remove_prefix(1);
  const bool plain =
      !key.empty() && key.size() <= NAME_MAX && key != "." && key != ".." &&
      key.find_first_of(absl::string_view("/\0", 2)) == absl::string_view::npos;
  if (plain) return std::string(key);
  return absl::InvalidArgumentError(
      absl::StrCat("key: ", QuotedName(given),
                   " is not the name of a shared memory object; it is one "
                   "name of at most ",
                   NAME_MAX, " bytes, with or without a / before it"));
}

absl::Status NoObject(absl::string_view key, absl::string_view is) {
  return absl::InvalidArgumentError(
      absl::StrCat("key: ", key, " is ", is,
                   "; it must be a shared memory object, as shm_open makes"));
}

absl::StatusOr<FileDescriptor> OpenObject(const std::string& key) {
  FileDescriptor file(shm_open(absl::StrCat("/", key).c_str(), O_RDWR, 0));
  if (file.get() >= 0) return file;
  switch (errno) {
    case ELOOP:
      return NoObject(key, "a symbolic link");
    case EISDIR:
      return NoObject(key, "a folder");
    case ENODEV:
    case ENXIO:
      return NoObject(key, "a socket or device");
  }
  return SystemError("open shared memory", key);
}

absl::StatusOr<uint64_t> ObjectSize(const FileDescriptor& file,
                                    absl::string_view key) {
  struct stat status;
  if (fstat(file.get(), &status) != 0) return SystemError("look at", key);
  if (!S_ISREG(status.st_mode)) return NoObject(key, "no regular file");
  return static_cast<uint64_t>(status.st_size);
}

bool Within(uint64_t offset, uint64_t size, uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

}  // namespace

absl::StatusOr<RegionHandle> SharedMemoryRegion::Open(const std::string& name,
                                                      const std::string& key,
                                                      uint64_t offset,
                                                      uint64_t byte_size) {
  ASSIGN_OR_RETURN(const std::string object, ObjectName(key));
  ASSIGN_OR_RETURN(FileDescriptor file, OpenObject(object));
  ASSIGN_OR_RETURN(const uint64_t size, ObjectSize(file, object));
  if (byte_size == 0 || !Within(offset, byte_size, size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "byte_size: ", byte_size, " bytes at offset ", offset,
        " are not in shared memory object ", object, ", which has ", size));
  }
  return RegionHandle(
      new SharedMemoryRegion(std::move(file), name, key, offset, byte_size));
}

absl::Status SharedMemoryRegion::CheckRange(uint64_t offset,
                                            uint64_t size) const {
  if (Within(offset, size, byte_size_)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      size, " bytes at offset ", offset, " are not in shared memory region ",
      QuotedName(name_), ", which has ", byte_size_));
}

absl::Status SharedMemoryRegion::Shortened() const {
  return absl::InvalidArgumentError(absl::StrCat(
      "the object of shared memory region ", QuotedName(name_),
      " is shorter than it was when it was registered; register it again"));
}

absl::StatusOr<std::string> SharedMemoryRegion::Read(uint64_t offset,
                                                     uint64_t size) const {
  RETURN_IF_ERROR(CheckRange(offset, size));
  std::string bytes(size, '\0');
  for (uint64_t done = 0; done < size;) {
    const ssize_t count = pread(file_.get(), bytes.data() + done, size - done,
                                static_cast<off_t>(offset_ + offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read shared memory", key_);
    if (count == 0) return Shortened();
    done += count;
  }
  return bytes;
}

absl::Status SharedMemoryRegion::Write(uint64_t offset,
                                       absl::string_view bytes) const {
  RETURN_IF_ERROR(CheckRange(offset, bytes.size()));
  // Writing would make it longer again.
  ASSIGN_OR_RETURN(const uint64_t size, ObjectSize(file_, key_));
  if (!Within(offset_ + offset, bytes.size(), size)) return Shortened();
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_.get(), bytes.data(), bytes.size(),
                                 static_cast<off_t>(offset_ + offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("write shared memory", key_);
    bytes.remove_prefix(count);
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryRegions::Register(const std::string& name,
                                           const std::string& key,
                                           uint64_t offset,
                                           uint64_t byte_size) {
  if (name.empty() || name.size() > kMaxStringBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name: has ", name.size(), " bytes, must have 1 to ", kMaxStringBytes));
  }
  ASSIGN_OR_RETURN(RegionHandle region,
                   SharedMemoryRegion::Open(name, key, offset, byte_size));
  absl::MutexLock lock(&mutex_);
  if (regions_.contains(name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("shared memory region ", QuotedName(name),
                     " is there already; unregister it first"));
  }
  if (regions_.size() == kMaxRegions) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxRegions,
                     " shared memory regions are registered, the "
                     "limit; unregister some"));
  }
  regions_.emplace(name, std::move(region));
  return absl::OkStatus();
}

void SharedMemoryRegions::Unregister(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  regions_.erase(name);
}

void SharedMemoryRegions::UnregisterAll() {
  absl::MutexLock lock(&mutex_);
  regions_.clear();
}

absl::StatusOr<RegionHandle> SharedMemoryRegions::Find(
    const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = regions_.find(name);
  if (found != regions_.end()) return found->second;
  return absl::NotFoundError(
      absl::StrCat("no shared memory region ", QuotedName(name),
                   " is registered; SystemSharedMemoryRegister does that"));
}

std::vector<RegionHandle> SharedMemoryRegions::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<RegionHandle> regions;
  for (const auto& [name, region] : regions_) regions.push_back(region);
  return regions;
}

}  // namespace recurve::server::kserve
