// QRNN's kernels on the emulation, against the float64 reference and against
// the CPU's recurrence.
#include "kernels/cuda/qrnn.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/qrnn.h"
#include "kernels/cpu/reference_test_util.h"
#include "kernels/cuda/emulation/coverage.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/recurrence_plan.h"
#include "kernels/cuda/recurrence_test_util.h"

namespace recurve::cuda {
namespace {

using cpu::NumericGradient;
using cpu::ReferenceOutput;
using cpu::ReferenceQrnn;
using emulation::DeviceArray;
using emulation::MarkCompared;

struct Options {
  bool zoneout_mask = true;
  bool states = true;  // c_first and dc_last
};

struct Problem {
  QrnnShape shape;
  std::vector<int64_t> cu;
  Tensors tensors;  // u, bias, zoneout_mask, c_first, dy, dc_last

  int64_t n() const { return cu.back(); }
  int64_t b() const { return static_cast<int64_t>(cu.size()) - 1; }
  int64_t c() const { return shape.channels(); }
  int64_t cols() const { return shape.projected_cols(); }
};

template <typename S>
Problem MakeProblem(const QrnnShape& shape, const std::vector<int64_t>& lengths,
                    const Options& options) {
  Problem p{shape, Offsets(lengths), {}};
  Tensors& t = p.tensors;
  t["u"] = Rounded<S>(RandomValues(p.n() * p.cols(), 1, 2.0));
  t["bias"] = RandomValues(p.cols(), 2);
  t["dy"] = Rounded<S>(RandomValues(p.n() * p.c(), 3));
  if (options.zoneout_mask) {
    t["zoneout_mask"] = RandomMask(p.n() * p.c(), 4, 1.0);
  }
  if (options.states) {
    t["c_first"] = RandomValues(p.b() * p.c(), 5);
    t["dc_last"] = RandomValues(p.b() * p.c(), 6);
  }
  return p;
}

// Arguments in an Array's memory, and results.
template <template <typename> class Array, typename S>
class Run {
 public:
  explicit Run(const Problem& p)
      : cu_(std::vector<int64_t>(p.cu)), matrices_(p.tensors) {
    QrnnForwardArgs<S>& args = backward_.forward;
    args.shape = p.shape;
    args.layout = {p.b(), p.n(), cu_.data()};
    args.weights.bias = matrices_.GivenVector("bias", p.cols());
    args.zoneout_mask = matrices_.Given("zoneout_mask", p.n(), p.c());
    args.c_first = matrices_.Given("c_first", p.b(), p.c());
    args.y = matrices_.UnwrittenStored("y", p.n(), p.c());
    args.c_last = matrices_.Unwritten("c_last", p.b(), p.c());
    args.u = matrices_.GivenStored("u", p.n(), p.cols());
    args.c = matrices_.Unwritten("c", p.n(), p.c());
    backward_.dy = matrices_.GivenStored("dy", p.n(), p.c());
    backward_.dc_last = matrices_.Given("dc_last", p.b(), p.c());
    backward_.dc_first = matrices_.Unwritten("dc_first", p.b(), p.c());
    backward_.channel_partials =
        matrices_.Unwritten("channel_partials", p.b(), p.cols());
  }
  Run(const Run&) = delete;

  QrnnForwardArgs<S>& forward() { return backward_.forward; }
  QrnnBackwardArgs<S>& backward() { return backward_; }
  std::vector<float> operator[](const std::string& name) const {
    return matrices_[name];
  }

  RecurrenceProblem ForwardProblem() { return QrnnProblem(forward()); }
  RecurrenceProblem BackwardProblem() { return QrnnProblem(backward_); }
  void Forward(const RecurrencePlan& plan) {
    ASSERT_EQ(QrnnRecurrence(forward(), plan, nullptr), cudaSuccess);
  }
  void Backward(const RecurrencePlan& plan) {
    ASSERT_EQ(QrnnRecurrenceBackward(backward_, plan, nullptr), cudaSuccess);
  }

 private:
  Array<int64_t> cu_;
  TestMatrices<Array, S> matrices_;
  QrnnBackwardArgs<S> backward_;
};

template <typename S>
using DeviceRun = Run<DeviceArray, S>;
using HostRun = Run<HostArray, float>;

// --- against the reference ---

// The reference's projection passes its input, u, on and nothing else.
struct ReferenceProblem {
  QrnnShape shape;
  std::vector<int64_t> cu;
  Tensors tensors;

  explicit ReferenceProblem(const Problem& p)
      : shape(p.shape), cu(p.cu), tensors(p.tensors) {
    shape.input_size = p.cols();
    tensors["x"] = p.tensors.at("u");
    tensors["projection"] = IdentityMatrix(p.cols());
  }

  ReferenceOutput Output() const { return ReferenceQrnn(shape, cu, tensors); }

  std::vector<double> Gradient(const std::string& name, int64_t step) const {
    const auto loss = [&](const Tensors& changed) {
      const ReferenceOutput out = ReferenceQrnn(shape, cu, changed);
      double sum = Dot(out.y, tensors.at("dy"));
      const auto dc_last = tensors.find("dc_last");
      if (dc_last != tensors.end()) sum += Dot(out.c_last, dc_last->second);
      return sum;
    };
    return NumericGradient(loss, tensors, name, step);
  }
};

// Every gradient against central differences at about 25 elements a tensor.
template <typename S>
void CheckAgainstReference(const Problem& p) {
  const ReferenceProblem reference(p);
  const ReferenceOutput want = reference.Output();
  struct Wanted {
    int64_t step;
    std::vector<double> values;
  };
  std::map<std::string, Wanted> gradients;
  for (const char* name : {"x", "bias", "c_first"}) {
    if (!reference.tensors.count(name)) continue;
    const int64_t step =
        1 + static_cast<int64_t>(reference.tensors.at(name).size()) / 25;
    gradients[name] = {step, reference.Gradient(name, step)};
  }
  for (const RecurrencePlan& plan :
       PossiblePlans(DeviceRun<S>(p).BackwardProblem())) {
    SCOPED_TRACE(Describe(plan));
    DeviceRun<S> run(p);
    run.Forward(plan);
    EXPECT_TRUE(Near(run["y"], want.y, 2e-6 + kRounding<S>)) << "y";
    EXPECT_TRUE(Near(run["c_last"], want.c_last, 2e-6)) << "c_last";
    MarkCompared();
    run.Backward(plan);
    std::map<std::string, std::vector<float>> got;
    got["x"] = run["u"];
    got["bias"] = SumOfRows(run["channel_partials"], p.cols());
    got["c_first"] = run["dc_first"];
    for (const auto& [name, gradient] : gradients) {
      EXPECT_TRUE(
          Near(got[name], gradient.values, 5e-6 + kRounding<S>, gradient.step))
          << "gradient of " << name;
    }
    MarkCompared();
  }
}

std::vector<QrnnShape> AllShapes(int64_t hidden_size) {
  std::vector<QrnnShape> shapes;
  for (int bits = 0; bits < 8; ++bits) {
    QrnnShape shape;
    shape.hidden_size = hidden_size;
    shape.num_directions = 1 + bits % 2;
    shape.output_gate = bits / 2 % 2;
    shape.zoneout = bits / 4 % 2 ? 0.25f : 0.0f;
    shapes.push_back(shape);
  }
  return shapes;
}

std::string Describe(const QrnnShape& s) {
  return absl::StrCat("H ", s.hidden_size, " D ", s.num_directions,
                      " output gate ", s.output_gate, " zoneout ", s.zoneout);
}

template <typename S>
class CudaQrnnTest : public ::testing::Test {};
using StorageTypes = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(CudaQrnnTest, StorageTypes);

TYPED_TEST(CudaQrnnTest, EveryCombinationOfOptionsAgreesWithTheReference) {
  int index = 0;
  for (int64_t hidden_size : {3, 8}) {
    for (const QrnnShape& shape : AllShapes(hidden_size)) {
      SCOPED_TRACE(Describe(shape));
      const int variant = index++ * 3 / 2 % 4;
      const Options options{(variant & 1) != 0, (variant & 2) != 0};
      CheckAgainstReference<TypeParam>(
          MakeProblem<TypeParam>(shape, {3, 0, 1, 5}, options));
    }
  }
}

TYPED_TEST(CudaQrnnTest, EmptyBatchesPassTheStateThrough) {
  QrnnShape shape;
  shape.hidden_size = 8;
  CheckAgainstReference<TypeParam>(
      MakeProblem<TypeParam>(shape, {0, 0, 0}, {}));
  CheckAgainstReference<TypeParam>(MakeProblem<TypeParam>(shape, {}, {}));
  CheckAgainstReference<TypeParam>(MakeProblem<TypeParam>(shape, {1}, {}));
}

// A gate that is nearly closed for 4000 steps, equally at each, so that
// rounding errors of 1 - i would add up: what is added each time is small
// against the state, and must not be lost in a scan's maps either.
TEST(CudaQrnnAccuracyTest, NearlyClosedGatesKeepTheirAccuracy) {
  QrnnShape shape;
  shape.hidden_size = 4;
  Problem p = MakeProblem<float>(shape, {4000}, {false, true});
  std::fill_n(p.tensors["bias"].begin() + 4, 4, -9.0);
  auto& u = p.tensors["u"];
  for (auto row = u.begin(); row < u.end(); row += shape.projected_cols()) {
    std::fill_n(row + 4, 4, 0.0);
  }
  const ReferenceOutput want = ReferenceProblem(p).Output();
  for (const RecurrencePlan& plan :
       PossiblePlans(DeviceRun<float>(p).ForwardProblem())) {
    SCOPED_TRACE(Describe(plan));
    DeviceRun<float> run(p);
    run.Forward(plan);
    EXPECT_TRUE(Near(run["c_last"], want.c_last, 1e-6));
    EXPECT_TRUE(Near(run["y"], want.y, 1e-6));
  }
}

// --- against the CPU ---

const char* const kForwardOutputs[] = {"y", "c", "c_last"};
const char* const kBackwardOutputs[] = {"u", "dc_first", "channel_partials"};

// Every output of every plan against the CPU's.
template <typename S>
void CheckAgainstCpu(const Problem& p) {
  HostRun cpu(p);
  cpu::QrnnRecurrence(cpu.forward());
  cpu::QrnnRecurrenceBackward(cpu.backward());
  const auto compare = [&](const DeviceRun<S>& run, const char* name) {
    EXPECT_TRUE(Near(run[name], ToDoubles(cpu[name]), 5e-6 + kRounding<S>))
        << name;
    MarkCompared();
  };
  for (const RecurrencePlan& plan :
       PossiblePlans(DeviceRun<S>(p).BackwardProblem())) {
    SCOPED_TRACE(Describe(plan));
    DeviceRun<S> run(p);
    run.Forward(plan);
    for (const char* name : kForwardOutputs) compare(run, name);
    run.Backward(plan);
    for (const char* name : kBackwardOutputs) compare(run, name);
  }
}

TYPED_TEST(CudaQrnnTest, LengthsAndWidthsOfAnyKindAgreeWithTheCpu) {
  for (int64_t hidden_size : {33, 65, 40}) {
    QrnnShape shape;
    shape.hidden_size = hidden_size;
    shape.num_directions = hidden_size == 65 ? 1 : 2;
    shape.output_gate = hidden_size != 33;
    SCOPED_TRACE(Describe(shape));
    CheckAgainstCpu<TypeParam>(MakeProblem<TypeParam>(shape, kScanLengths, {}));
  }
}

TYPED_TEST(CudaQrnnTest, OneStepOfOneSequenceAgreesWithTheCpu) {
  for (int64_t hidden_size : {1, 64}) {
    QrnnShape shape;
    shape.hidden_size = hidden_size;
    CheckAgainstCpu<TypeParam>(
        MakeProblem<TypeParam>(shape, {1}, {false, false}));
  }
}

// --- bits ---

TYPED_TEST(CudaQrnnTest, SerialWalksHaveTheSameBitsForAnyChannelsAThread) {
  QrnnShape shape;
  shape.hidden_size = 24;
  shape.num_directions = 2;
  const Problem p = MakeProblem<TypeParam>(shape, {7, 30, 2}, {});
  DeviceRun<TypeParam> narrow(p), wide(p);
  narrow.Forward({false, 1, 128});
  narrow.Backward({false, 1, 128});
  wide.Forward({false, kWideVec<TypeParam>, 32});
  wide.Backward({false, kWideVec<TypeParam>, 32});
  for (const char* name : kForwardOutputs) {
    EXPECT_TRUE(SameBits(narrow[name], wide[name])) << name;
  }
  for (const char* name : kBackwardOutputs) {
    EXPECT_TRUE(SameBits(narrow[name], wide[name])) << name;
  }
}

TYPED_TEST(CudaQrnnTest, ChunksInTimeWithCarriedStateHaveTheBitsOfTheWhole) {
  QrnnShape shape;
  shape.hidden_size = 24;
  const Problem whole = MakeProblem<TypeParam>(shape, {65}, {});
  DeviceRun<TypeParam> once(whole);
  once.Forward({});
  for (int64_t chunk : {1, 8, 33}) {
    Problem part = whole;
    for (int64_t begin = 0; begin < whole.n(); begin += chunk) {
      const int64_t end = std::min(begin + chunk, whole.n());
      part.cu = {0, end - begin};
      const auto cut = [&](const char* name, int64_t cols) {
        part.tensors[name] = RowsOf(whole.tensors.at(name), cols, begin, end);
      };
      cut("u", whole.cols());
      cut("zoneout_mask", whole.c());
      cut("dy", whole.c());
      DeviceRun<TypeParam> run(part);
      run.forward().c = {};  // as at inference
      run.forward().c_last =
          Matrix<float>(const_cast<float*>(run.forward().c_first.data), 1,
                        whole.c());  // in place
      run.Forward({false, kWideVec<TypeParam>, 32});
      ASSERT_TRUE(SameBits(run["y"], RowsOf(once["y"], whole.c(), begin, end)))
          << "chunk " << chunk << " at " << begin;
      part.tensors["c_first"] = ToDoubles(run["c_first"]);
    }
    const std::vector<double>& state = part.tensors["c_first"];
    EXPECT_TRUE(SameBits({state.begin(), state.end()}, once["c_last"]));
  }
}

// In another order of threads, where kernel_test_main draws it.
TYPED_TEST(CudaQrnnTest, ScansHaveTheSameBitsEveryTime) {
  const RecurrencePlan scan = {true, 1, kScanThreads};
  QrnnShape shape;
  shape.hidden_size = 33;
  const Problem p = MakeProblem<TypeParam>(shape, {130, 65}, {});
  DeviceRun<TypeParam> one(p), other(p);
  for (DeviceRun<TypeParam>* run : {&one, &other}) {
    run->Forward(scan);
    run->Backward(scan);
  }
  for (const char* name : kForwardOutputs) {
    EXPECT_TRUE(SameBits(one[name], other[name])) << name;
  }
  for (const char* name : kBackwardOutputs) {
    EXPECT_TRUE(SameBits(one[name], other[name])) << name;
  }
}

// Whichever way the last state is found, it is the last row's.
TYPED_TEST(CudaQrnnTest, TheLastStateIsThatOfTheLastRow) {
  QrnnShape shape;
  shape.hidden_size = 8;
  for (int64_t length : {1, 4, 5, 64, 65, 127}) {
    const Problem p = MakeProblem<TypeParam>(shape, {length}, {});
    for (const RecurrencePlan& plan :
         PossiblePlans(DeviceRun<TypeParam>(p).ForwardProblem())) {
      DeviceRun<TypeParam> run(p);
      run.Forward(plan);
      EXPECT_TRUE(
          SameBits(run["c_last"], RowsOf(run["c"], 8, length - 1, length)));
    }
  }
}

// --- absent outputs, and the plan that is chosen ---

TYPED_TEST(CudaQrnnTest, UnwantedOutputsMayBeAbsent) {
  QrnnShape shape;
  shape.hidden_size = 8;
  const Problem p = MakeProblem<TypeParam>(shape, {5, 70}, {});
  for (const RecurrencePlan& plan :
       PossiblePlans(DeviceRun<TypeParam>(p).BackwardProblem())) {
    SCOPED_TRACE(Describe(plan));
    DeviceRun<TypeParam> all(p), few(p);
    few.forward().c_last = {};
    few.backward().dc_first = {};
    all.Forward(plan);
    few.Forward(plan);
    all.Backward(plan);
    few.Backward(plan);
    for (const char* name : {"y", "c", "u", "channel_partials"}) {
      EXPECT_TRUE(SameBits(all[name], few[name])) << name;
    }
  }
}

TYPED_TEST(CudaQrnnTest, LaunchersFollowThePlan) {
  QrnnShape shape;
  shape.hidden_size = 33;
  const Problem p = MakeProblem<TypeParam>(shape, {100}, {});
  DeviceRun<TypeParam> planned(p), chosen(p);
  ASSERT_TRUE(PlanRecurrence(planned.ForwardProblem()).scan);
  ASSERT_TRUE(PlanRecurrence(planned.BackwardProblem()).scan);
  ASSERT_EQ(QrnnRecurrence(chosen.forward(), nullptr), cudaSuccess);
  ASSERT_EQ(QrnnRecurrenceBackward(chosen.backward(), nullptr), cudaSuccess);
  planned.Forward(PlanRecurrence(planned.ForwardProblem()));
  planned.Backward(PlanRecurrence(planned.BackwardProblem()));
  for (const char* name : {"y", "u", "c_last", "channel_partials"}) {
    EXPECT_TRUE(SameBits(planned[name], chosen[name])) << name;
  }
}

TEST(CudaQrnnPlanTest, WideAccessesNeedEveryArrayAligned) {
  QrnnShape shape;
  shape.hidden_size = 8;
  const Problem p = MakeProblem<float>(shape, {3}, {});
  DeviceRun<float> run(p);
  const auto forward = [&] { return run.ForwardProblem(); };
  ExpectAlignmentCounts(run.forward().u.data, forward);
  ExpectAlignmentCounts(run.forward().weights.bias, forward);
  ExpectAlignmentCounts(run.forward().zoneout_mask.data, forward);
  ExpectAlignmentCounts(run.forward().c_first.data, forward);
  ExpectAlignmentCounts(run.forward().y.data, forward);
  ExpectAlignmentCounts(run.forward().c.data, forward);
  ExpectAlignmentCounts(run.forward().c_last.data, forward);
  const auto backward = [&] { return run.BackwardProblem(); };
  ExpectAlignmentCounts(run.forward().u.data, backward);
  ExpectAlignmentCounts(run.backward().dy.data, backward);
  ExpectAlignmentCounts(run.backward().dc_last.data, backward);
  ExpectAlignmentCounts(run.backward().dc_first.data, backward);
  ExpectAlignmentCounts(run.backward().channel_partials.data, backward);
}

}  // namespace
}  // namespace recurve::cuda
