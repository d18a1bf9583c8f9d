#include "server/kserve/input_tensors.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/repeated_field.h"
#include "kernels/status.h"
#include "server/kserve/datatype.h"
#include "server/kserve/parameters.h"
#include "server/kserve/tensor_place.h"

namespace recurve::server::kserve {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using Input = ModelInferRequest::InferInputTensor;

absl::Span<const uint8_t> Bytes(absl::string_view bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

template <typename T>
std::string BytesOf(const google::protobuf::RepeatedField<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

absl::Status CheckOneList(const Input& input) {
  std::vector<const google::protobuf::FieldDescriptor*> lists;
  input.contents().GetReflection()->ListFields(input.contents(), &lists);
  if (lists.size() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "input ", QuotedName(input.name()), ": has contents in ", lists.size(),
      " lists, ", lists[0]->name(), " and ", lists[1]->name(),
      " among them; send the one of its datatype"));
}

absl::StatusOr<std::string> TypedBytes(const Input& input, DType dtype) {
  RETURN_IF_ERROR(CheckOneList(input));
  const InferTensorContents& contents = input.contents();
  switch (dtype) {
    case DType::kI32:
      return BytesOf(contents.int_contents());
    case DType::kI64:
      return BytesOf(contents.int64_contents());
    case DType::kF32:
      return BytesOf(contents.fp32_contents());
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", QuotedName(input.name()), ": ", input.datatype(),
          " has no typed contents; send raw_input_contents"));
  }
}

absl::Status SentTwice(const Input& input, const char* other) {
  return absl::InvalidArgumentError(
      absl::StrCat("input ", QuotedName(input.name()),
                   ": has contents although ", other, "; send them once"));
}

absl::StatusOr<DType> FindType(const Input& input) {
  const std::optional<DType> dtype = DTypeOf(input.datatype());
  if (dtype.has_value()) return *dtype;
  return absl::InvalidArgumentError(absl::StrCat(
      "input ", QuotedName(input.name()), ": datatype ",
      QuotedName(input.datatype()),
      " is none that inputs have: INT32, INT64, FP32, FP16, BF16"));
}

absl::Status CheckShape(const Input& input, absl::Span<const int64_t> shape) {
  for (const int64_t size : shape) {
    if (size >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input ", QuotedName(input.name()), ": shape ",
                     ShapeString(shape), " has a negative size"));
  }
  return absl::OkStatus();
}

// Gives the inputs their bytes, in the order of the request.
class Reader {
 public:
  Reader(const ModelInferRequest& request, const SharedMemoryRegions& regions,
         int64_t max_shared_bytes)
      : request_(request),
        regions_(regions),
        shared_bytes_left_(max_shared_bytes) {}

  absl::Status Read(const Input& input, InputTensor& tensor) {
    ASSIGN_OR_RETURN(tensor.view.dtype, FindType(input));
    tensor.view.shape.assign(input.shape().begin(), input.shape().end());
    RETURN_IF_ERROR(CheckShape(input, tensor.view.shape));
    ASSIGN_OR_RETURN(
        const int64_t size,
        ByteSize(input.name(), tensor.view.dtype, tensor.view.shape));
    RETURN_IF_ERROR(ReadBytes(input, size, tensor));
    if (static_cast<int64_t>(tensor.view.bytes.size()) == size) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", QuotedName(input.name()), ": has ", tensor.view.bytes.size(),
        " bytes, shape ", ShapeString(tensor.view.shape), " of ",
        input.datatype(), " has ", size));
  }

  absl::Status CheckAllUsed() const {
    if (next_raw_ == request_.raw_input_contents_size()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "raw_input_contents: has ", request_.raw_input_contents_size(),
        " entries, there are ", next_raw_, " inputs for them"));
  }

 private:
  absl::Status ReadBytes(const Input& input, int64_t size,
                         InputTensor& tensor) {
    ASSIGN_OR_RETURN(const std::optional<TensorPlace> place,
                     PlaceOf(input.parameters(), regions_));
    if (place.has_value()) {
      if (input.has_contents()) {
        return SentTwice(input, "its parameters place them in shared memory");
      }
      RETURN_IF_ERROR(CheckSize(input, *place, size));
      ASSIGN_OR_RETURN(tensor.owned, place->Read());
    } else if (request_.raw_input_contents().empty()) {
      ASSIGN_OR_RETURN(tensor.owned, TypedBytes(input, tensor.view.dtype));
    } else if (input.has_contents()) {
      return SentTwice(input, "the request has raw_input_contents");
    } else {
      return ReadRaw(input, tensor);
    }
    tensor.view.bytes = Bytes(tensor.owned);
    return absl::OkStatus();
  }

  // Before memory is taken for what a client merely says.
  absl::Status CheckSize(const Input& input, const TensorPlace& place,
                         int64_t size) {
    if (place.byte_size != static_cast<uint64_t>(size)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", QuotedName(input.name()), ": shared_memory_byte_size is ",
          place.byte_size, ", its shape and datatype have ", size));
    }
    if (size > shared_bytes_left_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "input ", QuotedName(input.name()), ": ", size,
          " bytes in shared memory; this request may have ", shared_bytes_left_,
          " more, all its inputs as many as a message"));
    }
    shared_bytes_left_ -= size;
    return absl::OkStatus();
  }

  absl::Status ReadRaw(const Input& input, InputTensor& tensor) {
    if (next_raw_ == request_.raw_input_contents_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("raw_input_contents: has ", next_raw_,
                       " entries, none for input ", QuotedName(input.name())));
    }
    tensor.view.bytes = Bytes(request_.raw_input_contents(next_raw_++));
    return absl::OkStatus();
  }

  const ModelInferRequest& request_;
  const SharedMemoryRegions& regions_;
  int64_t shared_bytes_left_;
  int next_raw_ = 0;
};

}  // namespace

absl::StatusOr<InputTensors> ReadInputs(const ModelInferRequest& request,
                                        const SharedMemoryRegions& regions,
                                        int64_t max_shared_bytes) {
  Reader reader(request, regions, max_shared_bytes);
  InputTensors tensors;
  for (const Input& input : request.inputs()) {
    const auto [place, is_new] = tensors.try_emplace(input.name());
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", QuotedName(input.name()), ": is there twice"));
    }
    RETURN_IF_ERROR(reader.Read(input, place->second));
  }
  RETURN_IF_ERROR(reader.CheckAllUsed());
  return tensors;
}

}  // namespace recurve::server::kserve
