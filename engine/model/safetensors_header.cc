#include "engine/model/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

// Receives the header's JSON piece by piece. Whatever is not expected where it
// comes ends the parse, so nesting cannot go deep.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  absl::Status status;

  bool key(string_t& name) override {
    switch (place_) {
      case Place::kRoot:
        return BeginEntry(name);
      case Place::kMetadata:
        metadata_key_ = name;
        return !header.metadata.contains(name) ||
               Twice(name, kSafetensorsMetadataKey);
      default:
        return BeginField(name);
    }
  }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kRoot;
        return true;
      case Place::kMetadataValue:
        place_ = Place::kMetadata;
        return true;
      case Place::kEntryValue:
        place_ = Place::kEntry;
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::kEntry && !EndEntry()) return false;
    place_ = Place::kRoot;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShapeValue) {
      place_ = Place::kShape;
    } else if (place_ == Place::kOffsetsValue) {
      place_ = Place::kOffsets;
    } else {
      return Unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header.metadata.emplace(metadata_key_, value);
      return true;
    }
    if (place_ != Place::kDTypeValue) return Unexpected("a string");
    place_ = Place::kEntry;
    if (FindDType(value, &header.entries.back().dtype)) return true;
    return Fail("tensor ", QuotedName(header.entries.back().name),
                ": unknown dtype ", QuotedName(value));
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) {
      return Unexpected("a number");
    }
    if (value > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Fail("tensor ", QuotedName(header.entries.back().name), ": ",
                  value, " is over the limit of 2^63 - 1");
    }
    return Number(static_cast<int64_t>(value));
  }

  bool number_integer(number_integer_t value) override {
    return Unexpected(absl::StrCat(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Unexpected(QuotedName(text));
  }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool null() override { return Unexpected("null"); }
  bool binary(binary_t&) override { return Unexpected("binary"); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail("the header is not JSON at its byte ", position);
  }

 private:
  enum class Place {
    kStart,
    kRoot,           // between tensors
    kMetadataValue,  // after the key "__metadata__"
    kMetadata,
    kEntryValue,  // after a tensor's name
    kEntry,
    kDTypeValue,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
  };

  template <typename... Parts>
  bool Fail(const Parts&... parts) {
    status =
        absl::InvalidArgumentError(absl::StrCat("safetensors: ", parts...));
    return false;
  }
  bool Twice(absl::string_view key, absl::string_view where) {
    return Fail("key ", QuotedName(key), " stands twice in ", where);
  }
  bool Unexpected(absl::string_view what) {
    return Fail(what, " where the header must not have it",
                header.entries.empty()
                    ? ""
                    : absl::StrCat(", near tensor ",
                                   QuotedName(header.entries.back().name)));
  }

  bool BeginEntry(const std::string& name) {
    if (name == kSafetensorsMetadataKey) {
      place_ = Place::kMetadataValue;
      return !std::exchange(has_metadata_, true) || Twice(name, "the header");
    }
    // Names that stand twice are found later, when the tensors are sorted.
    place_ = Place::kEntryValue;
    header.entries.emplace_back().name = name;
    has_dtype_ = has_shape_ = false;
    offsets_ = -1;
    return true;
  }

  bool BeginField(const std::string& name) {
    bool again = false;
    if (name == "dtype") {
      place_ = Place::kDTypeValue;
      again = std::exchange(has_dtype_, true);
    } else if (name == "shape") {
      place_ = Place::kShapeValue;
      again = std::exchange(has_shape_, true);
    } else if (name == "data_offsets") {
      place_ = Place::kOffsetsValue;
      again = offsets_ >= 0;
      offsets_ = 0;
    } else {
      return Fail("tensor ", QuotedName(header.entries.back().name),
                  ": unknown key ", QuotedName(name));
    }
    return !again ||
           Twice(name, absl::StrCat("tensor ",
                                    QuotedName(header.entries.back().name)));
  }

  bool Number(int64_t value) {
    SafetensorsEntry& entry = header.entries.back();
    if (place_ == Place::kShape) {
      entry.shape.push_back(value);
      return true;
    }
    if (offsets_ == 0) entry.begin = value;
    if (offsets_ == 1) entry.end = value;
    return ++offsets_ <= 2 || Fail("tensor ", QuotedName(entry.name),
                                   ": data_offsets has more than 2 numbers");
  }

  bool EndEntry() {
    const std::string name = QuotedName(header.entries.back().name);
    if (!has_dtype_) return Fail("tensor ", name, " has no dtype");
    if (!has_shape_) return Fail("tensor ", name, " has no shape");
    if (offsets_ != 2) return Fail("tensor ", name, " has no 2 data_offsets");
    return true;
  }

  Place place_ = Place::kStart;
  bool has_metadata_ = false;
  std::string metadata_key_;
  // Of the entry being read.
  bool has_dtype_ = false;
  bool has_shape_ = false;
  int offsets_ = -1;  // numbers of data_offsets read; -1: no such key yet
};

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    absl::string_view json) {
  HeaderReader reader;
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  if (!reader.status.ok()) return reader.status;
  return std::move(reader.header);
}

}  // namespace recurve
