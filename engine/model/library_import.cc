#include "engine/model/library_import.h"

#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/finite.h"
#include "engine/model/library_names.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Collects what does not fit; an error lists the first few.
class Complaints {
 public:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    if (++count_ <= kListed) lines_.push_back(absl::StrCat(parts...));
  }

  absl::Status status() const {
    if (count_ == 0) return absl::OkStatus();
    const std::string more =
        count_ > kListed ? absl::StrCat("; and ", count_ - kListed, " more")
                         : "";
    return absl::InvalidArgumentError(absl::StrCat(
        "the checkpoint does not fit the model: ", absl::StrJoin(lines_, "; "),
        more));
  }

 private:
  static constexpr int kListed = 20;
  int count_ = 0;
  std::vector<std::string> lines_;
};

// Every expected tensor is there in its shape, and there is no other.
absl::Status CheckKeys(const std::vector<LibraryTensor>& expected,
                       const TensorMap& tensors) {
  Complaints complaints;
  std::map<std::string, const LibraryTensor*, std::less<>> by_key;
  for (const LibraryTensor& tensor : expected) {
    by_key[tensor.key] = &tensor;
    const auto found = tensors.find(tensor.key);
    if (found == tensors.end()) {
      complaints.Add(QuotedName(tensor.key), " ", ShapeString(tensor.shape),
                     " is missing");
    } else if (found->second.shape != tensor.shape) {
      complaints.Add(QuotedName(tensor.key), " has shape ",
                     ShapeString(found->second.shape), ", expected ",
                     ShapeString(tensor.shape));
    }
  }
  for (const auto& [key, tensor] : tensors) {
    if (by_key.contains(key)) continue;
    complaints.Add(QuotedName(key), " ", ShapeString(tensor.shape),
                   " is not part of the model");
  }
  return complaints.status();
}

absl::Status CheckFinite(const std::string& key,
                         const std::vector<float>& values) {
  const auto bad = FirstNotFinite(values);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", QuotedName(key), ": element ", *bad, " is ", values[*bad]));
}

// Where a tied table stands in the checkpoint twice.
absl::Status CheckTied(const LibraryTensor& tensor,
                       const std::vector<float>& values,
                       const std::vector<float>& parameters) {
  const float* table = parameters.data() + tensor.parameter->offset;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::memcmp(&values[i], &table[i], sizeof(float)) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", QuotedName(tensor.key), ": element ", i, " is ",
                     values[i], ", but ", table[i],
                     " in the embedding, to which output.linear is tied"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportedModel> ImportLibrary(const Model& model,
                                            const TensorMap& tensors,
                                            const ImportOptions& options) {
  ImportedModel imported;
  ASSIGN_OR_RETURN(imported.names, FindNames(model, tensors, options));
  const std::vector<LibraryTensor> expected =
      ModelTensors(model, imported.names);
  RETURN_IF_ERROR(CheckKeys(expected, tensors));

  imported.parameters.assign(
      static_cast<size_t>(model.parameters().buffer_size()), 0.0f);
  const std::string output_weight = imported.names.output + "weight";
  const bool tied = model.config().output().linear().tied();
  for (const LibraryTensor& tensor : expected) {
    ASSIGN_OR_RETURN(const std::vector<float> values,
                     ToFloats(tensor.key, tensors.find(tensor.key)->second));
    RETURN_IF_ERROR(CheckFinite(tensor.key, values));
    if (tied && tensor.key == output_weight) {
      RETURN_IF_ERROR(CheckTied(tensor, values, imported.parameters));
    } else {
      FromLibrary(tensor, values.data(), imported.parameters.data());
    }
  }
  return imported;
}

ImportOptions OptionsFromMetadata(const MetadataMap& metadata) {
  const auto value = [&](absl::string_view key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  return {.embedding_key = value("recurve.embedding_key"),
          .output_key = value("recurve.output_key")};
}

}  // namespace recurve
