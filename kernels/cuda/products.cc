// Products by cuBLASLt. It stores matrices by columns: our row-major c = a b is
// its c^T = b^T a^T, each stored matrix read as its transpose.
#include "kernels/cuda/products.h"

#include <cublasLt.h>

#include <array>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/status.h"

namespace recurve::cuda {
namespace {

absl::Status ToStatus(cublasStatus_t status, absl::string_view operation) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const auto code = status == CUBLAS_STATUS_ALLOC_FAILED
                        ? absl::StatusCode::kResourceExhausted
                        : absl::StatusCode::kInternal;
  return absl::Status(
      code, absl::StrCat(operation, ": ", cublasLtGetStatusString(status), " (",
                         cublasLtGetStatusName(status), ")"));
}

cudaDataType_t DataType(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return CUDA_R_32F;
    case ElementType::kBFloat16:
      return CUDA_R_16BF;
    case ElementType::kFloat16:
      return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

cublasComputeType_t ComputeType(ElementType factors,
                                ProductPrecision precision) {
  if (factors != ElementType::kFloat) return CUBLAS_COMPUTE_32F;
  switch (precision) {
    case ProductPrecision::kFp32:
      return CUBLAS_COMPUTE_32F;
    case ProductPrecision::kTf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case ProductPrecision::kBf16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case ProductPrecision::kFp16:
      return CUBLAS_COMPUTE_32F_FAST_16F;
  }
  return CUBLAS_COMPUTE_32F;
}

// One product in the library's words: its a is our b. Holds nothing but plain
// memory.
struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c;
};

template <typename T>
absl::Status Set(Description& description,
                 cublasLtMatmulDescAttributes_t attribute, const T& value) {
  return ToStatus(cublasLtMatmulDescSetAttribute(&description.operation,
                                                 attribute, &value, sizeof(T)),
                  "cublasLtMatmulDescSetAttribute");
}

// A stored matrix of `rows` rows: by columns it is its transpose.
absl::Status SetLayout(cublasLtMatrixLayoutOpaque_t& layout, ElementType type,
                       int64_t rows, int64_t cols, int64_t stride) {
  return ToStatus(
      cublasLtMatrixLayoutInit(&layout, DataType(type), cols, rows, stride),
      "cublasLtMatrixLayoutInit");
}

absl::Status SetFactor(cublasLtMatrixLayoutOpaque_t& layout, ElementType type,
                       int64_t rows, int64_t cols, int64_t stride,
                       bool transposed) {
  if (transposed) std::swap(rows, cols);
  return SetLayout(layout, type, rows, cols, stride);
}

absl::Status Describe(const ProductKey& key, const float* bias,
                      ProductPrecision precision, Description& to) {
  RETURN_IF_ERROR(ToStatus(
      cublasLtMatmulDescInit(&to.operation, ComputeType(key.factors, precision),
                             CUDA_R_32F),
      "cublasLtMatmulDescInit"));
  const auto operation = [](bool transposed) {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  RETURN_IF_ERROR(
      Set(to, CUBLASLT_MATMUL_DESC_TRANSA, operation(key.b_transposed)));
  RETURN_IF_ERROR(
      Set(to, CUBLASLT_MATMUL_DESC_TRANSB, operation(key.a_transposed)));
  if (key.has_bias) {
    RETURN_IF_ERROR(
        Set(to, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    RETURN_IF_ERROR(Set(to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  }
  RETURN_IF_ERROR(SetFactor(to.a, key.factors, key.depth, key.cols,
                            key.b_stride, key.b_transposed));
  RETURN_IF_ERROR(SetFactor(to.b, key.factors, key.rows, key.depth,
                            key.a_stride, key.a_transposed));
  return SetLayout(to.c, key.result, key.rows, key.cols, key.c_stride);
}

// What an algorithm may do: use our workspace, rely on the alignment, and keep
// every sum in one block.
class Preference {
 public:
  absl::Status Create(const ProductKey& key) {
    RETURN_IF_ERROR(ToStatus(cublasLtMatmulPreferenceInit(&preference_),
                             "cublasLtMatmulPreferenceInit"));
    RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                        uint64_t{kProductWorkspaceBytes}));
    RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                        uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE}));
    RETURN_IF_ERROR(SetAlignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                 key.b_alignment));
    RETURN_IF_ERROR(SetAlignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                 key.a_alignment));
    RETURN_IF_ERROR(SetAlignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                 key.c_alignment));
    return SetAlignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                        key.c_alignment);
  }
  cublasLtMatmulPreference_t get() { return &preference_; }

 private:
  template <typename T>
  absl::Status Set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return ToStatus(cublasLtMatmulPreferenceSetAttribute(
                        &preference_, attribute, &value, sizeof(T)),
                    "cublasLtMatmulPreferenceSetAttribute");
  }
  absl::Status SetAlignment(cublasLtMatmulPreferenceAttributes_t attribute,
                            int64_t alignment) {
    return Set(attribute, static_cast<uint32_t>(alignment));
  }

  cublasLtMatmulPreferenceOpaque_t preference_;
};

// An attribute of an algorithm; 0 if it has none such.
uint32_t Attribute(const cublasLtMatmulAlgo_t& algorithm,
                   cublasLtMatmulAlgoConfigAttributes_t attribute) {
  uint32_t value = 0;
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value,
                                       sizeof(value), &written);
  return value;
}

// Whatever the preference was taken for: no sum is split.
bool SumsInOnePlace(const cublasLtMatmulAlgo_t& algorithm) {
  return Attribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
         Attribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) ==
             CUBLASLT_REDUCTION_SCHEME_NONE;
}

std::string Words(const ProductKey& key) {
  return absl::StrCat(key.rows, " x ", key.depth, " by ", key.depth, " x ",
                      key.cols);
}

class CublasProducts : public Products {
 public:
  CublasProducts(cudaStream_t stream, ProductPrecision precision,
                 void* workspace)
      : Products(stream), precision_(precision), workspace_(workspace) {}
  ~CublasProducts() override {
    if (handle_ != nullptr) cublasLtDestroy(handle_);
  }
  absl::Status Create() {
    return ToStatus(cublasLtCreate(&handle_), "cublasLtCreate");
  }

 private:
  absl::Status MultiplyNonEmpty(const Product& product) override {
    Description description;
    RETURN_IF_ERROR(
        Describe(ExactKeyOf(product), product.bias, precision_, description));
    ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t* algorithm,
                     Algorithm(product, description));
    const float one = 1.0f, beta = product.accumulate ? 1.0f : 0.0f;
    return ToStatus(
        cublasLtMatmul(handle_, &description.operation, &one, product.b.data,
                       &description.a, product.a.data, &description.b, &beta,
                       product.c, &description.c, product.c, &description.c,
                       algorithm, workspace_, kProductWorkspaceBytes, stream()),
        "cublasLtMatmul");
  }

  // The algorithm of the product's key, or of its very shape where the former
  // does not take it.
  absl::StatusOr<const cublasLtMatmulAlgo_t*> Algorithm(
      const Product& product, Description& description) {
    const auto rounded = Chosen(KeyOf(product), product.bias);
    if (rounded.ok() && Takes(**rounded, description)) return rounded;
    return Chosen(ExactKeyOf(product), product.bias);
  }

  bool Takes(const cublasLtMatmulAlgo_t& algorithm, Description& description) {
    cublasLtMatmulHeuristicResult_t result;
    return cublasLtMatmulAlgoCheck(handle_, &description.operation,
                                   &description.a, &description.b,
                                   &description.c, &description.c, &algorithm,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kProductWorkspaceBytes;
  }

  absl::StatusOr<const cublasLtMatmulAlgo_t*> Chosen(const ProductKey& key,
                                                     const float* bias) {
    const auto found = chosen_.find(key);
    if (found != chosen_.end()) return &found->second;
    ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t algorithm, Choose(key, bias));
    return &chosen_.emplace(key, algorithm).first->second;
  }

  // The first of the library's proposals that sums in one place.
  absl::StatusOr<cublasLtMatmulAlgo_t> Choose(const ProductKey& key,
                                              const float* bias) {
    Description description;
    RETURN_IF_ERROR(Describe(key, bias, precision_, description));
    Preference preference;
    RETURN_IF_ERROR(preference.Create(key));
    std::array<cublasLtMatmulHeuristicResult_t, 16> proposals;
    int count = 0;
    RETURN_IF_ERROR(ToStatus(
        cublasLtMatmulAlgoGetHeuristic(
            handle_, &description.operation, &description.a, &description.b,
            &description.c, &description.c, preference.get(),
            static_cast<int>(proposals.size()), proposals.data(), &count),
        absl::StrCat("cublasLtMatmulAlgoGetHeuristic of ", Words(key))));
    for (int i = 0; i < count; ++i) {
      if (proposals[i].state == CUBLAS_STATUS_SUCCESS &&
          SumsInOnePlace(proposals[i].algo)) {
        return proposals[i].algo;
      }
    }
    return absl::InternalError(
        absl::StrCat("cuBLASLt has no algorithm for ", Words(key),
                     " that sums in one place; it proposed ", count));
  }

  const ProductPrecision precision_;
  void* const workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<ProductKey, cublasLtMatmulAlgo_t> chosen_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Products>> CreateProducts(
    cudaStream_t stream, ProductPrecision precision, void* workspace) {
  auto products =
      std::make_unique<CublasProducts>(stream, precision, workspace);
  RETURN_IF_ERROR(products->Create());
  return products;
}

}  // namespace recurve::cuda
