// The tensors of a request, wherever their bytes are: in raw contents, in typed
// ones, or in shared memory.
#ifndef RECURVE_SERVER_KSERVE_INPUT_TENSORS_H_
#define RECURVE_SERVER_KSERVE_INPUT_TENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/tensor_data.h"
#include "proto/inference/inference.pb.h"
#include "server/kserve/shared_memory.h"

namespace recurve::server::kserve {

// Its bytes are as many as type and shape say. Not to be copied: a view of it
// may look at its own bytes.
struct InputTensor {
  TensorView view;
  std::string owned;  // the bytes, if they are not in the request

  InputTensor() = default;
  InputTensor(const InputTensor&) = delete;
  InputTensor& operator=(const InputTensor&) = delete;
};

// By name.
using InputTensors = std::map<std::string, InputTensor, std::less<>>;

// `request` outlives them. InvalidArgument says which input is wrong, and what
// it should be; NotFound for a region that is not registered; ResourceExhausted
// for more than `max_shared_bytes` in regions, all inputs together.
absl::StatusOr<InputTensors> ReadInputs(
    const inference::ModelInferRequest& request,
    const SharedMemoryRegions& regions, int64_t max_shared_bytes);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_INPUT_TENSORS_H_
