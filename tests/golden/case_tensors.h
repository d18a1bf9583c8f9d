// The tensors of a golden file, each asked for by name and expected shape;
// knows in the end what nobody asked for.
#ifndef RECURVE_TESTS_GOLDEN_CASE_TENSORS_H_
#define RECURVE_TESTS_GOLDEN_CASE_TENSORS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/safetensors.h"

namespace recurve::golden {

// "output", or "output_2" in a second call; "state_out_2.hidden".
std::string TensorName(const std::string& base, size_t call,
                       const std::string& rest = "");

class CaseTensors {
 public:
  // `file` outlives this.
  explicit CaseTensors(const Safetensors& file) : file_(file) {}

  bool Has(const std::string& name) const {
    return file_.Find(name) != nullptr;
  }
  // InvalidArgument if it is not there or has another type or shape.
  absl::StatusOr<std::vector<float>> Floats(const std::string& name,
                                            const std::vector<int64_t>& shape);
  absl::StatusOr<std::vector<double>> Doubles(
      const std::string& name, const std::vector<int64_t>& shape);
  absl::StatusOr<std::vector<int64_t>> Integers(
      const std::string& name, const std::vector<int64_t>& shape);
  // All whose names start with `prefix`, under the rest of their names.
  TensorMap WithPrefix(const std::string& prefix);

  // InvalidArgument names a tensor that was not used.
  absl::Status AllUsed() const;

 private:
  absl::StatusOr<const TensorView*> Use(const std::string& name,
                                        const std::vector<int64_t>& shape);

  const Safetensors& file_;
  std::set<std::string> used_;
};

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_CASE_TENSORS_H_
