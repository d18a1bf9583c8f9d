#include "server/kserve/requested_outputs.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"
#include "server/kserve/classification.h"
#include "server/kserve/parameters.h"

namespace recurve::server::kserve {
namespace {

using Wanted = inference::ModelInferRequest::InferRequestedOutputTensor;

absl::StatusOr<ModelOutput> Find(const std::vector<ModelOutput>& outputs,
                                 const std::string& name) {
  for (const ModelOutput& output : outputs) {
    if (output.tensor.name == name) return output;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "output ", QuotedName(name), ": is unknown; the model's outputs are ",
      absl::StrJoin(outputs, ", ", [](std::string* out, const ModelOutput& o) {
        absl::StrAppend(out, o.tensor.name);
      })));
}

bool NeedsTopK(OutputKind kind) {
  return kind == OutputKind::kTopClasses ||
         kind == OutputKind::kTopProbabilities;
}

absl::Status CheckTopK(const Model& model, const ModelOutput& output,
                       int64_t top_k) {
  if (!NeedsTopK(output.kind)) return absl::OkStatus();
  if (top_k >= 1 && top_k <= model.output_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "parameters.top_k: is ", top_k, "; output ", output.tensor.name,
      " needs it, 1 to ", model.output_size(), ", the model's classes"));
}

absl::StatusOr<int64_t> ClassificationOf(const Model& model,
                                         const Wanted& wanted,
                                         OutputKind kind) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                   IntegerParameter(wanted.parameters(), "classification"));
  if (!count.has_value()) return 0;
  if (kind != OutputKind::kLogits && kind != OutputKind::kProbabilities) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", wanted.name(),
                     ": classification is of logits and probabilities"));
  }
  if (*count >= 1 && *count <= model.output_size()) return *count;
  return absl::InvalidArgumentError(absl::StrCat(
      "output ", wanted.name(), ": classification is ", *count,
      ", must be 1 to ", model.output_size(), ", the model's outputs"));
}

absl::StatusOr<RequestedOutput> ReadOutput(
    const Wanted& wanted, const std::vector<ModelOutput>& known,
    const Model& model, int64_t top_k, const SharedMemoryRegions& regions) {
  RequestedOutput output;
  ASSIGN_OR_RETURN(output.output, Find(known, wanted.name()));
  RETURN_IF_ERROR(CheckTopK(model, output.output, top_k));
  ASSIGN_OR_RETURN(output.classification,
                   ClassificationOf(model, wanted, output.output.kind));
  ASSIGN_OR_RETURN(output.place, PlaceOf(wanted.parameters(), regions));
  if (output.classification > 0 && output.place.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("output ", wanted.name(),
                     ": a classification cannot be put in shared memory"));
  }
  return output;
}

// Of an element, or of the text that stands for it.
int64_t ElementBytes(const RequestedOutput& output) {
  return output.classification > 0 ? kMaxClassificationBytes : 4;
}

double Bytes(const RequestedOutput& output, int64_t batch, int64_t steps) {
  double bytes = static_cast<double>(ElementBytes(output));
  for (const int64_t size : BatchShape(output, batch, steps)) {
    bytes *= static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<RequestedOutput>> ReadOutputs(
    const inference::ModelInferRequest& request, const Model& model,
    int64_t top_k, const SharedMemoryRegions& regions) {
  const std::vector<ModelOutput> known = OutputsOf(model, top_k);
  std::vector<RequestedOutput> outputs;
  std::set<std::string> names;
  for (const Wanted& wanted : request.outputs()) {
    if (!names.insert(wanted.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output ", QuotedName(wanted.name()), ": is asked for twice"));
    }
    ASSIGN_OR_RETURN(RequestedOutput output,
                     ReadOutput(wanted, known, model, top_k, regions));
    outputs.push_back(std::move(output));
  }
  if (!outputs.empty()) return outputs;
  for (const ModelOutput& output : known) {
    if (!output.by_default) continue;
    RETURN_IF_ERROR(CheckTopK(model, output, top_k));
    outputs.push_back({output, /*classification=*/0, std::nullopt});
  }
  return outputs;
}

OutputSelection SelectionFor(const std::vector<RequestedOutput>& outputs,
                             int64_t top_k) {
  OutputSelection selection;
  for (const RequestedOutput& output : outputs) {
    switch (output.output.kind) {
      case OutputKind::kLogits:
        selection.logits = true;
        break;
      case OutputKind::kProbabilities:
        selection.probabilities = true;
        break;
      case OutputKind::kClasses:
        selection.classes = true;
        break;
      case OutputKind::kTopClasses:
      case OutputKind::kTopProbabilities:
        selection.top_k = top_k;
        break;
      case OutputKind::kHidden:
        selection.hidden = true;
        break;
    }
  }
  return selection;
}

std::vector<int64_t> BatchShape(const RequestedOutput& output, int64_t batch,
                                int64_t steps) {
  std::vector<int64_t> shape = {batch};
  for (const int64_t size : output.output.tensor.shape) {
    shape.push_back(size < 0 ? steps : size);
  }
  if (output.classification > 0) shape.back() = output.classification;
  return shape;
}

absl::Status CheckSizes(const std::vector<RequestedOutput>& outputs,
                        int64_t batch, int64_t steps, int64_t max_bytes) {
  double total = 0;
  for (const RequestedOutput& output : outputs) {
    const double bytes = Bytes(output, batch, steps);
    total += bytes;
    if (output.place.has_value() &&
        bytes > static_cast<double>(output.place->byte_size)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output ", output.output.tensor.name, ": shared_memory_byte_size is ",
          output.place->byte_size, ", ", bytes, " are needed"));
    }
  }
  if (total <= static_cast<double>(max_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the outputs, padded, have ", total, " bytes, the limit is ",
                   max_bytes, "; ask for fewer of them, or send fewer rows"));
}

}  // namespace recurve::server::kserve
