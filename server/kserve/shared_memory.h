// Regions of this machine's POSIX shared memory that clients have registered
// for their tensors.
//
// They are read and written by file calls, not mapped: a client that shortens
// its object while it is in use gets an error, where touching a mapping would
// end the server.
#ifndef RECURVE_SERVER_KSERVE_SHARED_MEMORY_H_
#define RECURVE_SERVER_KSERVE_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/file_descriptor.h"

namespace recurve::server::kserve {

// A part of one object. Thread-safe, as far as the bytes' owners are.
class SharedMemoryRegion {
 public:
  // `key` is the object's name as shm_open takes it. NotFound if there is none;
  // PermissionDenied if it is not ours to read and write; InvalidArgument for a
  // key that is no plain name, for a link, folder or the like in the object's
  // place, and for a region that does not lie inside of it.
  static absl::StatusOr<std::shared_ptr<const SharedMemoryRegion>> Open(
      const std::string& name, const std::string& key, uint64_t offset,
      uint64_t byte_size);

  const std::string& name() const { return name_; }
  const std::string& key() const { return key_; }
  uint64_t offset() const { return offset_; }
  uint64_t byte_size() const { return byte_size_; }

  // InvalidArgument for bytes outside the region, or outside the object as it
  // is now. `offset` is from the region's beginning.
  absl::StatusOr<std::string> Read(uint64_t offset, uint64_t size) const;
  absl::Status Write(uint64_t offset, absl::string_view bytes) const;

  absl::Status CheckRange(uint64_t offset, uint64_t size) const;

 private:
  SharedMemoryRegion(FileDescriptor file, std::string name, std::string key,
                     uint64_t offset, uint64_t byte_size)
      : file_(std::move(file)),
        name_(std::move(name)),
        key_(std::move(key)),
        offset_(offset),
        byte_size_(byte_size) {}
  absl::Status CheckObject(uint64_t offset, uint64_t size) const;
  absl::Status Shortened() const;

  const FileDescriptor file_;
  const std::string name_;
  const std::string key_;
  const uint64_t offset_;
  const uint64_t byte_size_;
};

using RegionHandle = std::shared_ptr<const SharedMemoryRegion>;

// By the names that clients gave. Thread-safe; a handle keeps a region good
// when it is unregistered meanwhile.
class SharedMemoryRegions {
 public:
  // Each keeps a file open.
  static constexpr size_t kMaxRegions = 256;

  // AlreadyExists, ResourceExhausted beyond kMaxRegions.
  absl::Status Register(const std::string& name, const std::string& key,
                        uint64_t offset, uint64_t byte_size);
  // No error if there is none.
  void Unregister(const std::string& name);
  void UnregisterAll();

  absl::StatusOr<RegionHandle> Find(const std::string& name) const;  // NotFound
  std::vector<RegionHandle> List() const;                            // by name

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, RegionHandle> regions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_SHARED_MEMORY_H_
