// Small models, and requests for them as clients make them.
#ifndef RECURVE_SERVER_KSERVE_DECODE_TEST_UTIL_H_
#define RECURVE_SERVER_KSERVE_DECODE_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "proto/inference/inference.pb.h"

namespace recurve::server::kserve {

std::shared_ptr<const Model> MakeModel(const std::string& textproto);
// 5 tokens in, a logit of each a step out; 6 hidden channels.
std::shared_ptr<const Model> TokenModel();
// Rows of 2 numbers in, 3 classes a step out.
std::shared_ptr<const Model> FeatureModel();
// Rows of 2 numbers in, 3 classes a sequence out.
std::shared_ptr<const Model> PoolingModel();

// Little-endian, as raw contents have them.
template <typename T>
std::string RawBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

// Adds an input with raw contents.
void AddInput(inference::ModelInferRequest& request, const std::string& name,
              const std::string& datatype, const std::vector<int64_t>& shape,
              const std::string& raw);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_DECODE_TEST_UTIL_H_
