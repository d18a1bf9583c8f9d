#include "engine/train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <type_traits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/file.h"
#include "engine/base/sha256.h"
#include "engine/model/safetensors.h"
#include "engine/model/safetensors_header.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kFormatKey = "format";
constexpr absl::string_view kFormat = "recurve-checkpoint-1";
// Its name makes it the file's last tensor: the narrowest type, and after all
// other names of that type.
constexpr absl::string_view kChecksum = "whole_file_sha256";
constexpr size_t kChecksumBytes = 32;

template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  return DType::kU8;
}

// Tensors of one dimension that look at numbers elsewhere, or own them.
class Tensors {
 public:
  // What does not change while the tensors are used.
  template <typename T>
  void View(absl::string_view name, absl::Span<const T> values) {
    TensorView tensor;
    tensor.dtype = DTypeOf<T>();
    tensor.shape = {static_cast<int64_t>(values.size())};
    tensor.bytes =
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                            values.size() * sizeof(T));
    map_[std::string(name)] = std::move(tensor);
  }
  void ViewBytes(absl::string_view name, absl::string_view bytes) {
    View<char>(name, absl::MakeConstSpan(bytes.data(), bytes.size()));
  }
  void Own(absl::string_view name, std::vector<int64_t> values) {
    View<int64_t>(name, integers_.emplace_back(std::move(values)));
  }
  void Own(absl::string_view name, std::vector<double> values) {
    View<double>(name, doubles_.emplace_back(std::move(values)));
  }
  void Own(absl::string_view name, std::vector<float> values) {
    View<float>(name, floats_.emplace_back(std::move(values)));
  }
  void Own(absl::string_view name, std::string bytes) {
    ViewBytes(name, strings_.emplace_back(std::move(bytes)));
  }

  const TensorMap& map() const { return map_; }

 private:
  TensorMap map_;
  std::deque<std::vector<int64_t>> integers_;
  std::deque<std::vector<double>> doubles_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::string> strings_;
};

// A list of lists becomes their sizes and their elements, one after another.
void AddStrings(const std::string& name,
                const std::vector<std::string>& strings, Tensors* tensors) {
  std::vector<int64_t> sizes;
  std::string bytes;
  for (const std::string& string : strings) {
    sizes.push_back(static_cast<int64_t>(string.size()));
    bytes += string;
  }
  tensors->Own(name + ".sizes", std::move(sizes));
  tensors->Own(name + ".bytes", std::move(bytes));
}

void AddStreams(const std::string& name,
                const std::vector<const Stream*>& streams, Tensors* tensors) {
  std::vector<int64_t> positions, sizes;
  std::vector<float> states;
  for (const Stream* stream : streams) {
    positions.push_back(stream->position);
    sizes.push_back(static_cast<int64_t>(stream->state.size()));
    states.insert(states.end(), stream->state.begin(), stream->state.end());
  }
  tensors->Own(name + ".positions", std::move(positions));
  tensors->Own(name + ".sizes", std::move(sizes));
  tensors->Own(name + ".states", std::move(states));
}

void AddAllStreams(const Streams& streams, Tensors* tensors) {
  std::vector<const Stream*> last, named;
  std::vector<std::string> names;
  for (const Stream& stream : streams.last) last.push_back(&stream);
  for (const auto& [stream_name, stream] : streams.named) {
    names.push_back(stream_name);
    named.push_back(&stream);
  }
  AddStreams("streams.last", last, tensors);
  AddStreams("streams.named", named, tensors);
  AddStrings("streams.names", names, tensors);
}

void AddTrainer(const TrainerState& state, Tensors* tensors) {
  tensors->Own("counts", std::vector<int64_t>{state.step, state.skipped_steps,
                                              state.accumulated_calls});
  tensors->Own("scales", std::vector<double>{state.accumulated_weight,
                                             state.learning_rate_scale});
  tensors->View<float>("parameters", state.parameters);
  tensors->View<float>("first_moment", state.first_moment);
  tensors->View<float>("second_moment", state.second_moment);
  tensors->View<float>("accumulated_gradient", state.accumulated_gradient);
  AddAllStreams(state.streams, tensors);
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a damaged checkpoint: ", what));
}

// What Tensors put into a file.
class Reader {
 public:
  Reader(const ReadableFile& file, const SafetensorsLayout& layout)
      : file_(file), layout_(layout) {}

  // All numbers of the tensor; the first error is kept.
  template <typename T>
  std::vector<T> Numbers(absl::string_view name) {
    const auto found = layout_.entries.find(name);
    if (found == layout_.entries.end() || found->second.dtype != DTypeOf<T>()) {
      status_.Update(Damaged(absl::StrCat("no tensor ", name)));
      return {};
    }
    const SafetensorsEntry& entry = found->second;
    const size_t size = static_cast<size_t>(entry.end - entry.begin);
    std::vector<T> values(size / sizeof(T));
    status_.Update(file_.ReadAt(
        layout_.data_begin + entry.begin,
        absl::MakeSpan(reinterpret_cast<uint8_t*>(values.data()), size)));
    return values;
  }
  // The same, of that many.
  template <typename T>
  std::vector<T> Numbers(absl::string_view name, size_t count) {
    std::vector<T> values = Numbers<T>(name);
    if (values.size() != count) {
      status_.Update(Damaged(absl::StrCat(name, " has ", values.size(),
                                          " numbers instead of ", count)));
      values.resize(count);
    }
    return values;
  }
  std::string Bytes(absl::string_view name) {
    const std::vector<char> bytes = Numbers<char>(name);
    return std::string(bytes.begin(), bytes.end());
  }
  // A list of lists, given as `name`.sizes and their elements.
  template <typename List, typename T>
  std::vector<List> Lists(const std::string& name,
                          const std::vector<T>& elements) {
    std::vector<List> lists;
    size_t begin = 0;
    for (const int64_t size : Numbers<int64_t>(name + ".sizes")) {
      if (size < 0 || static_cast<size_t>(size) > elements.size() - begin) {
        status_.Update(Damaged(name + ".sizes"));
        return {};
      }
      const auto first = elements.begin() + static_cast<int64_t>(begin);
      lists.emplace_back(first, first + size);
      begin += static_cast<size_t>(size);
    }
    return lists;
  }

  std::vector<std::string> Strings(const std::string& name) {
    return Lists<std::string>(name, Numbers<char>(name + ".bytes"));
  }
  std::vector<Stream> ReadStreams(const std::string& name) {
    auto states =
        Lists<std::vector<float>>(name, Numbers<float>(name + ".states"));
    const auto positions = Numbers<int64_t>(name + ".positions", states.size());
    std::vector<Stream> streams;
    for (size_t i = 0; i < states.size(); ++i) {
      streams.push_back(Stream{positions[i], std::move(states[i])});
    }
    return streams;
  }

  void Fail(absl::string_view what) { status_.Update(Damaged(what)); }
  const absl::Status& status() const { return status_; }

 private:
  const ReadableFile& file_;
  const SafetensorsLayout& layout_;
  absl::Status status_;
};

Streams ReadAllStreams(Reader& reader) {
  Streams streams;
  streams.last = reader.ReadStreams("streams.last");
  std::vector<std::string> names = reader.Strings("streams.names");
  std::vector<Stream> named = reader.ReadStreams("streams.named");
  if (names.size() != named.size()) {
    reader.Fail("streams.names");
    return streams;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    streams.named[std::move(names[i])] = std::move(named[i]);
  }
  return streams;
}

void ReadScalars(Reader& reader, TrainerState& state) {
  const auto counts = reader.Numbers<int64_t>("counts", 3);
  const auto scales = reader.Numbers<double>("scales", 2);
  state.step = counts[0];
  state.skipped_steps = counts[1];
  state.accumulated_calls = static_cast<int32_t>(counts[2]);
  state.accumulated_weight = scales[0];
  state.learning_rate_scale = scales[1];
}

void ReadBuffers(Reader& reader, TrainerState& state) {
  state.parameters = reader.Numbers<float>("parameters");
  state.first_moment = reader.Numbers<float>("first_moment");
  state.second_moment = reader.Numbers<float>("second_moment");
  state.accumulated_gradient = reader.Numbers<float>("accumulated_gradient");
  state.streams = ReadAllStreams(reader);
}

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::Status CheckSum(const ReadableFile& file) {
  const int64_t end = file.size() - int64_t{kChecksumBytes};
  if (end < 0) return Damaged("it ends early");
  Sha256 sha256;
  std::vector<uint8_t> buffer(std::min(end, int64_t{1} << 20));
  for (int64_t at = 0; at < end; at += static_cast<int64_t>(buffer.size())) {
    const auto piece = absl::MakeSpan(buffer).first(
        std::min(buffer.size(), static_cast<size_t>(end - at)));
    RETURN_IF_ERROR(file.ReadAt(at, piece));
    sha256.Update(AsText(piece));
  }
  uint8_t sum[kChecksumBytes];
  RETURN_IF_ERROR(file.ReadAt(end, absl::MakeSpan(sum)));
  if (sha256.Finish() == absl::BytesToHexString(AsText(sum))) {
    return absl::OkStatus();
  }
  return Damaged("its bytes are not those that were written");
}

// Whether the buffers are read, and the checksum looked at.
enum class Extent { kDescription, kWhole };

absl::StatusOr<Checkpoint> Read(const ReadableFile& file, Extent extent) {
  const bool whole = extent == Extent::kWhole;
  if (whole) RETURN_IF_ERROR(CheckSum(file));
  const auto layout = ReadSafetensorsLayout(file);
  if (absl::IsInvalidArgument(layout.status())) {
    return Damaged(layout.status().message());
  }
  RETURN_IF_ERROR(layout.status());
  const auto format = layout->metadata.find(kFormatKey);
  if (format == layout->metadata.end() || format->second != kFormat) {
    return Damaged("its format is not recurve-checkpoint-1");
  }
  Reader reader(file, *layout);
  Checkpoint checkpoint;
  if (!checkpoint.model_config.ParseFromString(reader.Bytes("model_config"))) {
    reader.Fail("model_config");
  }
  checkpoint.vocabulary = reader.Strings("vocabulary");
  checkpoint.details = reader.Bytes("details");
  ReadScalars(reader, checkpoint.trainer);
  if (whole) {
    ReadBuffers(reader, checkpoint.trainer);
    checkpoint.best_parameters = reader.Numbers<float>("best_parameters");
  }
  RETURN_IF_ERROR(reader.status());
  return checkpoint;
}

absl::StatusOr<Checkpoint> ReadFileOf(const std::string& path,
                                      const ReadableFile& file, Extent extent) {
  absl::StatusOr<Checkpoint> checkpoint = Read(file, extent);
  if (checkpoint.ok()) return checkpoint;
  return absl::Status(checkpoint.status().code(),
                      absl::StrCat(path, ": ", checkpoint.status().message()));
}

}  // namespace

absl::StatusOr<int64_t> SaveCheckpointFile(const std::string& path,
                                           const Checkpoint& checkpoint) {
  Tensors tensors;
  tensors.Own("model_config", checkpoint.model_config.SerializeAsString());
  AddStrings("vocabulary", checkpoint.vocabulary, &tensors);
  AddTrainer(checkpoint.trainer, &tensors);
  tensors.ViewBytes("details", checkpoint.details);
  tensors.View<float>("best_parameters", checkpoint.best_parameters);
  std::string checksum(kChecksumBytes, '\0');  // looked at by the last piece
  tensors.ViewBytes(kChecksum, checksum);

  const MetadataMap metadata = {
      {std::string(kFormatKey), std::string(kFormat)}};
  ASSIGN_OR_RETURN(const std::string head,
                   SafetensorsHead(tensors.map(), metadata));
  std::vector<absl::string_view> pieces = SafetensorsData(tensors.map());
  pieces.insert(pieces.begin(), head);
  Sha256 sha256;
  int64_t size = 0;
  for (const absl::string_view piece : pieces) {
    size += static_cast<int64_t>(piece.size());
    if (piece.data() != checksum.data()) sha256.Update(piece);
  }
  const std::string digest = absl::HexStringToBytes(sha256.Finish());
  std::memcpy(checksum.data(), digest.data(), kChecksumBytes);
  RETURN_IF_ERROR(WriteFileAtomically(path, pieces));
  return size;
}

absl::StatusOr<Checkpoint> LoadCheckpointFile(const std::string& path) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  return ReadFileOf(path, file, Extent::kWhole);
}

absl::StatusOr<CheckpointDescription> DescribeCheckpointFile(
    const std::string& path) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  CheckpointDescription description;
  ASSIGN_OR_RETURN(description.checkpoint,
                   ReadFileOf(path, file, Extent::kDescription));
  description.size_bytes = file.size();
  return description;
}

}  // namespace recurve
