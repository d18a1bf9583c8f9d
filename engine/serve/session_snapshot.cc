#include "engine/serve/session_snapshot.h"

#include <cmath>
#include <cstring>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/serve/sealed_bytes.h"
#include "engine/serve/session_rows.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kMagic = "rcv-sess";
constexpr uint32_t kFormat = 1;
constexpr size_t kMaxNameBytes = 4096;

// Of fixed size, after the magic.
struct Header {
  uint32_t format = kFormat;
  uint32_t name_bytes = 0;
  int64_t position = 0;
  uint64_t carry_floats = 0;
};
static_assert(sizeof(Header) == 24 && std::is_trivially_copyable_v<Header>);

constexpr size_t kFixedBytes = kMagic.size() + sizeof(Header) + 2 * kSealBytes;

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the session's snapshot ", what));
}

absl::Status CheckRows(absl::string_view of_what, int64_t rows) {
  if (rows >= 0 && rows <= kMaxSessionRows) return absl::OkStatus();
  return Damaged(absl::StrCat("has ", of_what, " ", rows, ", must have 0 to ",
                              kMaxSessionRows));
}

// Of numbers that are `T`, from a place in the carry.
template <typename T>
absl::Status CheckFinite(absl::string_view of_what, const float* words,
                         int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, reinterpret_cast<const char*>(words) + i * sizeof(T),
                sizeof(T));
    if (std::isfinite(value)) continue;
    return Damaged(
        absl::StrCat("has NaN or infinity as number ", i, " of ", of_what));
  }
  return absl::OkStatus();
}

// What Model::pool_carry_offset describes.
absl::Status CheckPooled(const float* words, const Model& model) {
  int64_t rows = 0;
  std::memcpy(&rows, words, sizeof(rows));
  words += sizeof(rows) / sizeof(float);
  RETURN_IF_ERROR(CheckRows("pooled rows", rows));
  return model.pool_kind() == PoolKind::kMean
             ? CheckFinite<double>("what is pooled", words,
                                   model.hidden_channels())
             : CheckFinite<float>("what is pooled", words,
                                  model.hidden_channels());
}

// Whether what follows the shape is as long as the header says.
bool IsWhole(const Header& header, size_t rest) {
  if (header.name_bytes > kMaxNameBytes || header.name_bytes > rest) {
    return false;
  }
  const size_t carry_bytes = rest - header.name_bytes;
  return carry_bytes % sizeof(float) == 0 &&
         header.carry_floats == carry_bytes / sizeof(float);
}

absl::StatusOr<SessionSnapshot> ParseInside(absl::string_view bytes) {
  TakeBytes(bytes, kMagic.size());
  const auto header = Take<Header>(bytes);
  if (header.format != kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("the session's snapshot has format ", header.format,
                     ", this server reads format ", kFormat));
  }
  SessionSnapshot snapshot;
  snapshot.shape = std::string(TakeBytes(bytes, kSealBytes));
  if (!IsWhole(header, bytes.size())) {
    return Damaged("is not as long as it says");
  }
  RETURN_IF_ERROR(CheckRows("position", header.position));
  snapshot.model_version = std::string(TakeBytes(bytes, header.name_bytes));
  snapshot.position = header.position;
  snapshot.carry.resize(header.carry_floats);
  if (!bytes.empty()) {
    std::memcpy(snapshot.carry.data(), bytes.data(), bytes.size());
  }
  return snapshot;
}

std::string Describe(const Layer& layer) {
  const char* const cell =
      std::holds_alternative<SruLayer>(layer.cell) ? "sru" : "qrnn";
  std::string text = absl::StrCat(cell, " ", layer.channels(), " channels at ",
                                  layer.c_offset);
  if (layer.x_previous_offset >= 0) {
    absl::StrAppend(&text, ", ", layer.input_size(), " inputs at ",
                    layer.x_previous_offset);
  }
  return text + "\n";
}

}  // namespace

std::string ShapeSignature(const Model& model) {
  std::string text = "recurve carry 1\n";
  for (const Layer& layer : model.layers()) text += Describe(layer);
  absl::StrAppend(&text, "pooling ",
                  static_cast<int>(model.config().output().pooling()), "\n",
                  "state ", model.state_size(), ", carry ", model.carry_size());
  return RawSha256(text);
}

std::string SerializeSnapshot(const SessionSnapshot& snapshot) {
  Header header;
  header.name_bytes = static_cast<uint32_t>(snapshot.model_version.size());
  header.position = snapshot.position;
  header.carry_floats = snapshot.carry.size();
  return Seal(absl::StrCat(
      kMagic, BytesOf(header), snapshot.shape, snapshot.model_version,
      absl::string_view(reinterpret_cast<const char*>(snapshot.carry.data()),
                        sizeof(float) * snapshot.carry.size())));
}

absl::StatusOr<SessionSnapshot> ParseSnapshot(absl::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return Damaged("does not begin as one");
  }
  if (bytes.size() < kFixedBytes) return Damaged("ends early");
  const auto inside = Unseal(bytes);
  if (!inside) return Damaged("differs from its checksum");
  return ParseInside(*inside);
}

absl::Status CheckShape(absl::string_view shape, const ModelVersion& version) {
  if (version.model->bidirectional()) {
    return absl::FailedPreconditionError(absl::StrCat(
        version.name, " is bidirectional: it has no state to go on from"));
  }
  if (shape != ShapeSignature(*version.model)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the session's state has another shape than those of ",
                     version.name, ": start a session of that version"));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const SessionSnapshot& snapshot,
                       const ModelVersion& version) {
  RETURN_IF_ERROR(CheckShape(snapshot.shape, version));
  const Model& model = *version.model;
  const int64_t floats = static_cast<int64_t>(snapshot.carry.size());
  if (floats != model.carry_size()) {
    return Damaged(absl::StrCat("has ", floats, " numbers of state, those of ",
                                version.name, " have ", model.carry_size()));
  }
  const float* const carry = snapshot.carry.data();
  RETURN_IF_ERROR(CheckFinite<float>("its state", carry, model.state_size()));
  if (model.pool_carry_offset() < 0) return absl::OkStatus();
  return CheckPooled(carry + model.pool_carry_offset(), model);
}

}  // namespace recurve
