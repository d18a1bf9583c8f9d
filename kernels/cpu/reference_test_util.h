// The layers as SEMANTICS writes them: scalar loops in double, one sequence and
// one direction after another, nothing shared with the kernels. Gradients come
// from central differences of these, so no derivation is trusted twice.
#ifndef RECURVE_KERNELS_CPU_REFERENCE_TEST_UTIL_H_
#define RECURVE_KERNELS_CPU_REFERENCE_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cell_args.h"

namespace recurve::cpu {

// Tensors by the names of the argument structs' fields, row-major without gaps;
// one that is not there is absent.
using Tensors = std::map<std::string, std::vector<double>>;

// Deterministic values in [-scale, scale], exact in float.
std::vector<double> RandomValues(int64_t count, uint32_t seed,
                                 double scale = 1.0);

// Row offsets of sequences with these lengths.
std::vector<int64_t> Offsets(const std::vector<int64_t>& lengths);

struct ReferenceOutput {
  std::vector<double> y;       // [N, C]
  std::vector<double> c_last;  // [B, C]
  std::vector<double> x_last;  // [B, I], QRNN with window 2
};

// Reads x, c_first, mask_in, mask_cell, projection_in, projection,
// projection_bias, v, bias, norm_weight, norm_bias.
ReferenceOutput ReferenceSru(const SruShape& shape,
                             const std::vector<int64_t>& cu_seqlens,
                             const Tensors& tensors);

// Reads x, c_first, x_previous, zoneout_mask, projection, bias.
ReferenceOutput ReferenceQrnn(const QrnnShape& shape,
                              const std::vector<int64_t>& cu_seqlens,
                              const Tensors& tensors);

// d loss / d tensors[name][i] for i = 0, step, 2 step, ...
std::vector<double> NumericGradient(
    const std::function<double(const Tensors&)>& loss, Tensors tensors,
    const std::string& name, int64_t step);

// max |got - want| / max(1, max |want|) <= tolerance; a failure names the worst
// element. got[i * step] is compared with want[i].
::testing::AssertionResult Near(const std::vector<float>& got,
                                const std::vector<double>& want,
                                double tolerance, int64_t step = 1);

// Equal bits; a failure names the first difference.
::testing::AssertionResult SameBits(const std::vector<float>& a,
                                    const std::vector<float>& b);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_REFERENCE_TEST_UTIL_H_
