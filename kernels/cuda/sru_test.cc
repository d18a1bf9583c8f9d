// SRU's kernels on the emulation, against the float64 reference and against the
// CPU's recurrence.
#include "kernels/cuda/sru.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/reference_test_util.h"
#include "kernels/cpu/sru.h"
#include "kernels/cuda/emulation/coverage.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/recurrence_plan.h"
#include "kernels/cuda/recurrence_test_util.h"

namespace recurve::cuda {
namespace {

using cpu::NumericGradient;
using cpu::ReferenceOutput;
using cpu::ReferenceSru;
using emulation::DeviceArray;
using emulation::MarkCompared;

struct Options {
  bool mask_cell = true;
  bool states = true;  // c_first and dc_last
};

struct Problem {
  SruShape shape;
  std::vector<int64_t> cu;
  // u, x (of a skip of the input), v, bias, mask_cell, c_first, dy, dc_last.
  Tensors tensors;

  int64_t n() const { return cu.back(); }
  int64_t b() const { return static_cast<int64_t>(cu.size()) - 1; }
  int64_t c() const { return shape.channels(); }
};

template <typename S>
Problem MakeProblem(SruShape shape, const std::vector<int64_t>& lengths,
                    const Options& options) {
  shape.input_size = shape.channels();
  Problem p{shape, Offsets(lengths), {}};
  const int64_t c = p.c();
  Tensors& t = p.tensors;
  t["u"] = Rounded<S>(RandomValues(p.n() * shape.projected_cols(), 1, 1.5));
  t["v"] = RandomValues(2 * c, 2);
  t["bias"] = RandomValues(2 * c, 3);
  t["dy"] = Rounded<S>(RandomValues(p.n() * c, 4));
  if (shape.skip == SruSkip::kInput) {
    t["x"] = Rounded<S>(RandomValues(p.n() * c, 5));
  }
  if (options.mask_cell) t["mask_cell"] = RandomMask(p.b() * c, 6, 1.25);
  if (options.states) {
    t["c_first"] = RandomValues(p.b() * c, 7);
    t["dc_last"] = RandomValues(p.b() * c, 8);
  }
  return p;
}

// Arguments in an Array's memory, and results.
template <template <typename> class Array, typename S>
class Run {
 public:
  explicit Run(const Problem& p)
      : cu_(std::vector<int64_t>(p.cu)), matrices_(p.tensors) {
    SruForwardArgs<S>& args = backward_.forward;
    args.shape = p.shape;
    args.layout = {p.b(), p.n(), cu_.data()};
    args.weights.v = matrices_.GivenVector("v", 2 * p.c());
    args.weights.bias = matrices_.GivenVector("bias", 2 * p.c());
    args.x = matrices_.GivenStored("x", p.n(), p.c());
    args.mask_cell = matrices_.Given("mask_cell", p.b(), p.c());
    args.c_first = matrices_.Given("c_first", p.b(), p.c());
    args.y = matrices_.UnwrittenStored("y", p.n(), p.c());
    args.c_last = matrices_.Unwritten("c_last", p.b(), p.c());
    args.u = matrices_.GivenStored("u", p.n(), p.shape.projected_cols());
    args.c = matrices_.Unwritten("c", p.n(), p.c());
    backward_.dy = matrices_.GivenStored("dy", p.n(), p.c());
    backward_.dc_last = matrices_.Given("dc_last", p.b(), p.c());
    if (p.tensors.count("x"))
      backward_.dx = matrices_.UnwrittenStored("dx", p.n(), p.c());
    backward_.dc_first = matrices_.Unwritten("dc_first", p.b(), p.c());
    backward_.channel_partials =
        matrices_.Unwritten("channel_partials", p.b(), 4 * p.c());
  }
  Run(const Run&) = delete;

  SruForwardArgs<S>& forward() { return backward_.forward; }
  SruBackwardArgs<S>& backward() { return backward_; }
  std::vector<float> operator[](const std::string& name) const {
    return matrices_[name];
  }

  RecurrenceProblem ForwardProblem() {
    return SruProblem(forward(), forward().y);
  }
  RecurrenceProblem BackwardProblem() {
    return SruProblem(backward_, backward_.dy);
  }
  void Forward(const RecurrencePlan& plan) {
    ASSERT_EQ(SruRecurrence(forward(), forward().y, plan, nullptr),
              cudaSuccess);
  }
  void Backward(const RecurrencePlan& plan) {
    ASSERT_EQ(SruRecurrenceBackward(backward_, backward_.dy, plan, nullptr),
              cudaSuccess);
  }

 private:
  Array<int64_t> cu_;
  TestMatrices<Array, S> matrices_;
  SruBackwardArgs<S> backward_;
};

template <typename S>
using DeviceRun = Run<DeviceArray, S>;
using HostRun = Run<HostArray, float>;

// --- against the reference ---

// The reference's projection passes u on and nothing else: its input is the
// skip's x, then u.
struct ReferenceProblem {
  SruShape shape;
  std::vector<int64_t> cu;
  Tensors tensors;

  explicit ReferenceProblem(const Problem& p)
      : shape(p.shape), cu(p.cu), tensors(p.tensors) {
    const int64_t cols = shape.projected_cols();
    const std::vector<double> identity = IdentityMatrix(cols);
    shape.input_size = cols;
    std::vector<double>& projection = tensors["projection"];
    if (shape.skip == SruSkip::kInput) {
      shape.input_size += p.c();
      projection.assign(p.c() * cols, 0.0);
      tensors["x"] = Beside(p.tensors.at("x"), p.c(), p.tensors.at("u"), cols);
    } else {
      tensors["x"] = p.tensors.at("u");
    }
    projection.insert(projection.end(), identity.begin(), identity.end());
  }

  ReferenceOutput Output() const { return ReferenceSru(shape, cu, tensors); }

  std::vector<double> Gradient(const std::string& name, int64_t step) const {
    const auto loss = [&](const Tensors& changed) {
      const ReferenceOutput out = ReferenceSru(shape, cu, changed);
      double sum = Dot(out.y, tensors.at("dy"));
      const auto dc_last = tensors.find("dc_last");
      if (dc_last != tensors.end()) sum += Dot(out.c_last, dc_last->second);
      return sum;
    };
    return NumericGradient(loss, tensors, name, step);
  }
};

// What the kernels make of the gradient of the reference's tensor.
template <typename S>
std::vector<float> Gradient(const Problem& p, const DeviceRun<S>& run,
                            const std::string& name) {
  if (name == "c_first") return run["dc_first"];
  if (name == "x") {
    if (p.shape.skip != SruSkip::kInput) return run["u"];
    return Beside(run["dx"], p.c(), run["u"], p.shape.projected_cols());
  }
  const std::vector<float> sums = SumOfRows(run["channel_partials"], 4 * p.c());
  const int64_t begin = name == "v" ? 0 : 2 * p.c();
  return {sums.begin() + begin, sums.begin() + begin + 2 * p.c()};
}

struct Wanted {
  int64_t step;
  std::vector<double> values;
};
using Gradients = std::map<std::string, Wanted>;

// Central differences at about 25 elements a tensor.
Gradients WantedGradients(const ReferenceProblem& reference) {
  Gradients gradients;
  for (const char* name : {"x", "v", "bias", "c_first"}) {
    if (!reference.tensors.count(name)) continue;
    const int64_t step =
        1 + static_cast<int64_t>(reference.tensors.at(name).size()) / 25;
    gradients[name] = {step, reference.Gradient(name, step)};
  }
  return gradients;
}

template <typename S>
void CheckForward(const Problem& p, const RecurrencePlan& plan,
                  const ReferenceOutput& want) {
  SCOPED_TRACE(Describe(plan));
  DeviceRun<S> run(p);
  run.Forward(plan);
  EXPECT_TRUE(Near(run["y"], want.y, 2e-6 + kRounding<S>)) << "y";
  EXPECT_TRUE(Near(run["c_last"], want.c_last, 2e-6)) << "c_last";
  MarkCompared();
}

template <typename S>
void CheckBackward(const Problem& p, const RecurrencePlan& plan,
                   const Gradients& gradients) {
  SCOPED_TRACE(Describe(plan));
  DeviceRun<S> run(p);
  run.Forward({});
  run.Backward(plan);
  for (const auto& [name, want] : gradients) {
    EXPECT_TRUE(Near(Gradient(p, run, name), want.values, 5e-6 + kRounding<S>,
                     want.step))
        << "gradient of " << name;
  }
  MarkCompared();
}

template <typename S>
void CheckAgainstReference(const Problem& p) {
  const ReferenceProblem reference(p);
  DeviceRun<S> run(p);
  for (const RecurrencePlan& plan : PossiblePlans(run.ForwardProblem())) {
    CheckForward<S>(p, plan, reference.Output());
  }
  const Gradients gradients = WantedGradients(reference);
  for (const RecurrencePlan& plan : PossiblePlans(run.BackwardProblem())) {
    CheckBackward<S>(p, plan, gradients);
  }
}

std::vector<SruShape> AllShapes(int64_t hidden_size) {
  std::vector<SruShape> shapes;
  for (int bits = 0; bits < 24; ++bits) {
    SruShape shape;
    shape.hidden_size = hidden_size;
    shape.num_directions = 1 + bits % 2;
    shape.use_tanh = bits / 2 % 2;
    shape.has_step_coefficients = bits / 4 % 2;
    shape.skip = static_cast<SruSkip>(bits / 8);
    shape.skip_scale = 1.375f;
    shapes.push_back(shape);
  }
  return shapes;
}

std::string Describe(const SruShape& s) {
  return absl::StrCat("H ", s.hidden_size, " D ", s.num_directions, " skip ",
                      static_cast<int>(s.skip), " tanh ", s.use_tanh, " steps ",
                      s.has_step_coefficients);
}

template <typename S>
class CudaSruTest : public ::testing::Test {};
using StorageTypes = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(CudaSruTest, StorageTypes);

TYPED_TEST(CudaSruTest, EveryCombinationOfOptionsAgreesWithTheReference) {
  int index = 0;
  for (int64_t hidden_size : {3, 8}) {
    for (const SruShape& shape : AllShapes(hidden_size)) {
      SCOPED_TRACE(Describe(shape));
      const int variant = index++ * 3 % 4;
      const Options options{(variant & 1) != 0, (variant & 2) != 0};
      CheckAgainstReference<TypeParam>(
          MakeProblem<TypeParam>(shape, {3, 0, 1, 5}, options));
    }
  }
}

TYPED_TEST(CudaSruTest, EmptyBatchesPassTheStateThrough) {
  SruShape shape;
  shape.hidden_size = 8;
  CheckAgainstReference<TypeParam>(
      MakeProblem<TypeParam>(shape, {0, 0, 0}, {}));
  CheckAgainstReference<TypeParam>(MakeProblem<TypeParam>(shape, {}, {}));
  CheckAgainstReference<TypeParam>(MakeProblem<TypeParam>(shape, {1}, {}));
}

// --- against the CPU ---

const char* const kForwardOutputs[] = {"y", "c", "c_last"};
const char* const kBackwardOutputs[] = {"u", "dx", "dc_first",
                                        "channel_partials"};

// Every output of every plan against the CPU's.
template <typename S>
void CheckAgainstCpu(const Problem& p) {
  HostRun cpu(p);
  cpu::SruRecurrence(cpu.forward(), cpu.forward().y);
  cpu::SruRecurrenceBackward(cpu.backward(), cpu.backward().dy);
  const auto compare = [&](const DeviceRun<S>& run, const char* name) {
    if (std::string(name) == "dx" && !p.tensors.count("x")) return;
    EXPECT_TRUE(Near(run[name], ToDoubles(cpu[name]), 1e-5 + kRounding<S>))
        << name;
    MarkCompared();
  };
  for (const RecurrencePlan& plan :
       PossiblePlans(DeviceRun<S>(p).BackwardProblem())) {
    SCOPED_TRACE(Describe(plan));
    DeviceRun<S> run(p);
    run.Forward(plan.scan ? RecurrencePlan{} : plan);
    for (const char* name : kForwardOutputs) compare(run, name);
    run.Backward(plan);
    for (const char* name : kBackwardOutputs) compare(run, name);
  }
}

TYPED_TEST(CudaSruTest, LengthsAndWidthsOfAnyKindAgreeWithTheCpu) {
  for (int64_t hidden_size : {33, 65, 40}) {
    SruShape shape;
    shape.hidden_size = hidden_size;
    shape.num_directions = hidden_size == 65 ? 1 : 2;
    if (hidden_size != 33) {
      shape.skip = SruSkip::kTransform;
      shape.use_tanh = true;
      shape.has_step_coefficients = true;
    }
    SCOPED_TRACE(Describe(shape));
    CheckAgainstCpu<TypeParam>(MakeProblem<TypeParam>(shape, kScanLengths, {}));
  }
}

TYPED_TEST(CudaSruTest, OneStepOfOneSequenceAgreesWithTheCpu) {
  for (int64_t hidden_size : {1, 64}) {
    SruShape shape;
    shape.hidden_size = hidden_size;
    CheckAgainstCpu<TypeParam>(
        MakeProblem<TypeParam>(shape, {1}, {false, false}));
  }
}

// --- bits ---

TYPED_TEST(CudaSruTest, SerialWalksHaveTheSameBitsForAnyChannelsAThread) {
  SruShape shape;
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

TYPED_TEST(CudaSruTest, ChunksInTimeWithCarriedStateHaveTheBitsOfTheWhole) {
  SruShape shape;
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
      cut("u", shape.projected_cols());
      cut("x", whole.c());
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
TYPED_TEST(CudaSruTest, ScansHaveTheSameBitsEveryTime) {
  const RecurrencePlan scan = {true, 1, kScanThreads};
  SruShape shape;
  shape.hidden_size = 33;
  const Problem p = MakeProblem<TypeParam>(shape, {130, 65}, {});
  DeviceRun<TypeParam> one(p), other(p);
  for (DeviceRun<TypeParam>* run : {&one, &other}) {
    run->Forward({});
    run->Backward(scan);
  }
  for (const char* name : kBackwardOutputs) {
    EXPECT_TRUE(SameBits(one[name], other[name])) << name;
  }
}

// --- absent outputs, and the plan that is chosen ---

TYPED_TEST(CudaSruTest, UnwantedOutputsMayBeAbsent) {
  SruShape shape;
  shape.hidden_size = 8;
  const Problem p = MakeProblem<TypeParam>(shape, {5, 70}, {});
  for (const RecurrencePlan& plan :
       PossiblePlans(DeviceRun<TypeParam>(p).BackwardProblem())) {
    SCOPED_TRACE(Describe(plan));
    DeviceRun<TypeParam> all(p), few(p);
    few.forward().c_last = {};
    few.backward().dx = {};
    few.backward().dc_first = {};
    all.Forward({});
    few.Forward({});
    all.Backward(plan);
    few.Backward(plan);
    for (const char* name : {"y", "c", "u", "channel_partials"}) {
      EXPECT_TRUE(SameBits(all[name], few[name])) << name;
    }
  }
}

TYPED_TEST(CudaSruTest, LaunchersFollowThePlan) {
  SruShape shape;
  shape.hidden_size = 33;
  const Problem p = MakeProblem<TypeParam>(shape, {100}, {});
  DeviceRun<TypeParam> planned(p), chosen(p);
  ASSERT_TRUE(PlanRecurrence(planned.BackwardProblem()).scan);
  ASSERT_EQ(SruRecurrence(chosen.forward(), chosen.forward().y, nullptr),
            cudaSuccess);
  ASSERT_EQ(
      SruRecurrenceBackward(chosen.backward(), chosen.backward().dy, nullptr),
      cudaSuccess);
  planned.Forward(PlanRecurrence(planned.ForwardProblem()));
  planned.Backward(PlanRecurrence(planned.BackwardProblem()));
  for (const char* name : {"y", "u", "dx", "channel_partials"}) {
    EXPECT_TRUE(SameBits(planned[name], chosen[name])) << name;
  }
}

TEST(CudaSruPlanTest, WideAccessesNeedEveryArrayAligned) {
  SruShape shape;
  shape.hidden_size = 8;
  shape.skip = SruSkip::kInput;
  const Problem p = MakeProblem<float>(shape, {3}, {});
  DeviceRun<float> run(p);
  const auto forward = [&] { return run.ForwardProblem(); };
  ExpectAlignmentCounts(run.forward().u.data, forward);
  ExpectAlignmentCounts(run.forward().weights.v, forward);
  ExpectAlignmentCounts(run.forward().weights.bias, forward);
  ExpectAlignmentCounts(run.forward().x.data, forward);
  ExpectAlignmentCounts(run.forward().mask_cell.data, forward);
  ExpectAlignmentCounts(run.forward().c_first.data, forward);
  ExpectAlignmentCounts(run.forward().y.data, forward);
  ExpectAlignmentCounts(run.forward().c.data, forward);
  ExpectAlignmentCounts(run.forward().c_last.data, forward);
  const auto backward = [&] { return run.BackwardProblem(); };
  ExpectAlignmentCounts(run.forward().u.data, backward);
  ExpectAlignmentCounts(run.backward().dy.data, backward);
  ExpectAlignmentCounts(run.backward().dx.data, backward);
  ExpectAlignmentCounts(run.backward().dc_last.data, backward);
  ExpectAlignmentCounts(run.backward().dc_first.data, backward);
  ExpectAlignmentCounts(run.backward().channel_partials.data, backward);
}

}  // namespace
}  // namespace recurve::cuda
