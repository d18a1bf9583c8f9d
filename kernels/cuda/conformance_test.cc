// The comparison itself: it accepts the CPU backend and no other.
#include "kernels/cuda/conformance.h"

#include <memory>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/forwarding_backend.h"

namespace recurve::cuda {
namespace {

TEST(ConformanceTest, TheCpuBackendAgreesWithItself) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend(2);
  const Conformance conformance = CompareWithCpu(*backend, 1);
  EXPECT_GT(conformance.operations, 500);
  EXPECT_TRUE(conformance.failures.empty()) << conformance.failures[0];
}

// Leaves out the last rows of windows, and takes steps a little too large.
class WrongBackend : public ForwardingBackend {
 public:
  WrongBackend() : ForwardingBackend(CreateCpuBackend(1)) {}
  absl::Status QrnnForward(const QrnnForwardArgs<float>& args) override {
    QrnnForwardArgs<float> without = args;
    without.x_last = {};
    return ForwardingBackend::QrnnForward(without);
  }
  absl::Status Update(const OptimizerArgs& args) override {
    OptimizerArgs more = args;
    more.learning_rate *= 1.0005f;
    return ForwardingBackend::Update(more);
  }
};

TEST(ConformanceTest, ABackendThatDiffersIsTold) {
  WrongBackend backend;
  const Conformance conformance = CompareWithCpu(backend, 1);
  int updates = 0, rows = 0;
  for (const std::string& failure : conformance.failures) {
    const bool of_update = failure.find("update") == 0;
    const bool of_rows = failure.find("x_last") != std::string::npos;
    EXPECT_TRUE(of_update || of_rows) << failure;
    updates += of_update;
    rows += of_rows;
  }
  EXPECT_GE(updates, 12);  // each of them
  EXPECT_GT(rows, 0);
}

}  // namespace
}  // namespace recurve::cuda
