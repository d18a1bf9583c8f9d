#include "engine/model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/safetensors_header.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr size_t kSizeBytes = 8;  // the header's size, before the header

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors: ", parts...));
}

template <typename... Parts>
absl::Status Truncated(const Parts&... parts) {
  return absl::DataLossError(
      absl::StrCat("safetensors: the bytes end early: ", parts...));
}

absl::Status CheckBegin(size_t file_size) {
  if (file_size >= kSizeBytes) return absl::OkStatus();
  return Truncated(file_size, " bytes, but the header's size takes 8");
}

// As the first kSizeBytes say it.
absl::StatusOr<size_t> HeaderSize(const uint8_t* begin, size_t file_size) {
  uint64_t size;
  std::memcpy(&size, begin, kSizeBytes);
  if (size > uint64_t{kMaxSafetensorsHeaderBytes}) {
    return Invalid("the header's size is ", size, " bytes; the limit is ",
                   kMaxSafetensorsHeaderBytes);
  }
  if (size > file_size - kSizeBytes) {
    return Truncated("the header has ", size, " bytes, of which ",
                     file_size - kSizeBytes, " are there");
  }
  return static_cast<size_t>(size);
}

// That one entry makes sense by itself.
absl::Status CheckEntry(const SafetensorsEntry& entry, int64_t data_size) {
  if (entry.end < entry.begin) {
    return Invalid("tensor ", QuotedName(entry.name), ": data_offsets [",
                   entry.begin, ", ", entry.end, "] descend");
  }
  ASSIGN_OR_RETURN(const int64_t size,
                   ByteSize(entry.name, entry.dtype, entry.shape));
  if (entry.end - entry.begin != size) {
    return Invalid(
        "tensor ", QuotedName(entry.name), ": data_offsets [", entry.begin,
        ", ", entry.end, "] span ", entry.end - entry.begin, " bytes, but ",
        DTypeName(entry.dtype), " ", ShapeString(entry.shape), " takes ", size);
  }
  if (entry.end > data_size) {
    return Truncated("tensor ", QuotedName(entry.name), " ends at byte ",
                     entry.end, " of the data, which has ", data_size);
  }
  return absl::OkStatus();
}

// That the tensors cover the data one after another. Sorts them by offset.
absl::Status CheckCoverage(std::vector<SafetensorsEntry>& entries,
                           int64_t data_size) {
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  int64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != covered) {
      return Invalid("tensor ", QuotedName(entry.name), " begins at byte ",
                     entry.begin, " of the data, where byte ", covered,
                     entry.begin < covered ? " comes next: tensors overlap"
                                           : " comes next: there is a hole");
    }
    covered = entry.end;
  }
  if (covered != data_size) {
    return Invalid("the tensors end at byte ", covered,
                   " of the data, which has ", data_size);
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsLayout> LayoutOf(absl::string_view json,
                                           size_t file_size) {
  if (json.empty() || json[0] != '{') {
    return Invalid("the header does not begin with {");
  }
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(json));
  SafetensorsLayout layout;
  layout.data_begin = static_cast<int64_t>(kSizeBytes + json.size());
  const int64_t data_size = static_cast<int64_t>(file_size) - layout.data_begin;
  for (const SafetensorsEntry& entry : header.entries) {
    RETURN_IF_ERROR(CheckEntry(entry, data_size));
  }
  RETURN_IF_ERROR(CheckCoverage(header.entries, data_size));
  layout.metadata = std::move(header.metadata);
  for (SafetensorsEntry& entry : header.entries) {
    const std::string name = entry.name;
    if (!layout.entries.try_emplace(name, std::move(entry)).second) {
      return Invalid("key ", QuotedName(name), " stands twice in the header");
    }
  }
  return layout;
}

// The order of the data: by alignment, largest first, then by name.
std::vector<TensorMap::const_iterator> DataOrder(const TensorMap& tensors) {
  std::vector<TensorMap::const_iterator> order;
  for (auto it = tensors.begin(); it != tensors.end(); ++it) {
    order.push_back(it);
  }
  std::stable_sort(order.begin(), order.end(), [](auto a, auto b) {
    return DTypeBits(a->second.dtype) > DTypeBits(b->second.dtype);
  });
  return order;
}

absl::StatusOr<std::string> JsonString(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return Invalid(QuotedName(text), " is not UTF-8");
  }
}

absl::StatusOr<std::string> MetadataJson(const MetadataMap& metadata) {
  std::vector<std::string> items;
  for (const auto& [key, value] : metadata) {
    ASSIGN_OR_RETURN(const std::string key_json, JsonString(key));
    ASSIGN_OR_RETURN(const std::string value_json, JsonString(value));
    items.push_back(absl::StrCat(key_json, ":", value_json));
  }
  return absl::StrCat("{", absl::StrJoin(items, ","), "}");
}

absl::StatusOr<std::string> EntryJson(const std::string& name,
                                      const TensorView& tensor, int64_t begin) {
  if (name == kSafetensorsMetadataKey)
    return Invalid("no tensor can be called ", name);
  ASSIGN_OR_RETURN(const std::string name_json, JsonString(name));
  ASSIGN_OR_RETURN(const int64_t size,
                   ByteSize(name, tensor.dtype, tensor.shape));
  if (size != static_cast<int64_t>(tensor.bytes.size())) {
    return Invalid("tensor ", QuotedName(name), " has ", tensor.bytes.size(),
                   " bytes, but its shape takes ", size);
  }
  return absl::StrCat(name_json, ":{\"dtype\":\"", DTypeName(tensor.dtype),
                      "\",\"shape\":[", absl::StrJoin(tensor.shape, ","),
                      "],\"data_offsets\":[", begin, ",", begin + size, "]}");
}

absl::StatusOr<std::string> SerializeHeader(const TensorMap& tensors,
                                            const MetadataMap& metadata) {
  std::vector<std::string> items;
  if (!metadata.empty()) {
    ASSIGN_OR_RETURN(std::string json, MetadataJson(metadata));
    items.push_back(absl::StrCat("\"", kSafetensorsMetadataKey, "\":", json));
  }
  int64_t begin = 0;
  for (const auto& it : DataOrder(tensors)) {
    ASSIGN_OR_RETURN(std::string json, EntryJson(it->first, it->second, begin));
    items.push_back(std::move(json));
    begin += static_cast<int64_t>(it->second.bytes.size());
  }
  return absl::StrCat("{", absl::StrJoin(items, ","), "}");
}

}  // namespace

absl::StatusOr<Safetensors> Safetensors::Parse(
    absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckBegin(bytes.size()));
  ASSIGN_OR_RETURN(const size_t json_size,
                   HeaderSize(bytes.data(), bytes.size()));
  const absl::string_view json(
      reinterpret_cast<const char*>(bytes.data()) + kSizeBytes, json_size);
  ASSIGN_OR_RETURN(SafetensorsLayout layout, LayoutOf(json, bytes.size()));

  const auto data = bytes.subspan(static_cast<size_t>(layout.data_begin));
  Safetensors file;
  file.metadata_ = std::move(layout.metadata);
  for (auto& [name, entry] : layout.entries) {
    file.tensors_[name] = {
        entry.dtype, std::move(entry.shape),
        data.subspan(static_cast<size_t>(entry.begin),
                     static_cast<size_t>(entry.end - entry.begin))};
  }
  return file;
}

absl::StatusOr<SafetensorsLayout> ReadSafetensorsLayout(
    const ReadableFile& file) {
  const size_t file_size = static_cast<size_t>(file.size());
  RETURN_IF_ERROR(CheckBegin(file_size));
  uint8_t begin[kSizeBytes];
  RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(begin)));
  ASSIGN_OR_RETURN(const size_t json_size, HeaderSize(begin, file_size));
  std::vector<uint8_t> json(json_size);
  RETURN_IF_ERROR(file.ReadAt(kSizeBytes, absl::MakeSpan(json)));
  return LayoutOf({reinterpret_cast<const char*>(json.data()), json.size()},
                  file_size);
}

absl::StatusOr<Safetensors> Safetensors::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  absl::StatusOr<Safetensors> file = Parse(mapped.bytes());
  if (!file.ok()) {
    return absl::Status(file.status().code(),
                        absl::StrCat(path, ": ", file.status().message()));
  }
  file->file_ = std::move(mapped);
  return file;
}

const TensorView* Safetensors::Find(absl::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

// The size and the header, padded so that the data begins at a multiple of 8.
absl::StatusOr<std::string> SafetensorsHead(const TensorMap& tensors,
                                            const MetadataMap& metadata) {
  ASSIGN_OR_RETURN(std::string header, SerializeHeader(tensors, metadata));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > size_t{kMaxSafetensorsHeaderBytes}) {
    return Invalid("the header would have ", header.size(),
                   " bytes; the limit is ", kMaxSafetensorsHeaderBytes);
  }
  const uint64_t size = header.size();
  std::string head(kSizeBytes, '\0');
  std::memcpy(head.data(), &size, kSizeBytes);
  return head + header;
}

std::vector<absl::string_view> SafetensorsData(const TensorMap& tensors) {
  std::vector<absl::string_view> pieces;
  for (const auto& it : DataOrder(tensors)) {
    const absl::Span<const uint8_t> bytes = it->second.bytes;
    if (bytes.empty()) continue;
    pieces.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                        bytes.size());
  }
  return pieces;
}

absl::StatusOr<std::string> SerializeSafetensors(const TensorMap& tensors,
                                                 const MetadataMap& metadata) {
  ASSIGN_OR_RETURN(const std::string head, SafetensorsHead(tensors, metadata));
  return absl::StrCat(head, absl::StrJoin(SafetensorsData(tensors), ""));
}

absl::Status WriteSafetensors(const std::string& path, const TensorMap& tensors,
                              const MetadataMap& metadata) {
  ASSIGN_OR_RETURN(const std::string head, SafetensorsHead(tensors, metadata));
  std::vector<absl::string_view> pieces = SafetensorsData(tensors);
  pieces.insert(pieces.begin(), head);
  return WriteFileAtomically(path, pieces);
}

}  // namespace recurve
