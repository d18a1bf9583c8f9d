#include <omp.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/layers.h"
#include "kernels/cpu/reference_test_util.h"
#include "kernels/cpu/test_util.h"

namespace recurve::cpu {
namespace {

constexpr float kUnwritten = 12345.0f;

// Which optional inputs a case has.
struct Options {
  bool mask_in = false;
  bool mask_cell = false;
  bool c_first = true;
  bool projection_bias = false;
};

struct Problem {
  SruShape shape;
  std::vector<int64_t> cu;
  Tensors tensors;

  int64_t n() const { return cu.back(); }
  int64_t b() const { return static_cast<int64_t>(cu.size()) - 1; }
  int64_t c() const { return shape.channels(); }
};

std::vector<double> Mask(int64_t count, uint32_t seed) {
  std::vector<double> mask = RandomValues(count, seed);
  for (double& value : mask) value = value > -0.5 ? 1.25f : 0.0;
  return mask;
}

Problem MakeProblem(const SruShape& shape, const std::vector<int64_t>& lengths,
                    const Options& options) {
  Problem p{shape, Offsets(lengths), {}};
  const int64_t i = shape.input_size, c = shape.channels();
  Tensors& t = p.tensors;
  t["x"] = RandomValues(p.n() * i, 1, 1.5);
  int64_t inner = i;
  if (shape.projection_size > 0) {
    inner = shape.projection_size;
    t["projection_in"] = RandomValues(i * inner, 2, 1.5 / std::sqrt(i));
  }
  t["projection"] =
      RandomValues(inner * shape.projected_cols(), 3, 2.0 / std::sqrt(inner));
  t["v"] = RandomValues(2 * c, 4);
  t["bias"] = RandomValues(2 * c, 5);
  if (options.projection_bias) {
    t["projection_bias"] = RandomValues(shape.projected_cols(), 6);
  }
  if (shape.layer_norm != NormPlace::kNone) {
    const int64_t size = shape.layer_norm == NormPlace::kBefore ? i : c;
    t["norm_weight"] = RandomValues(size, 7, 2.0);
    t["norm_bias"] = RandomValues(size, 8);
  }
  if (options.c_first) t["c_first"] = RandomValues(p.b() * c, 9);
  if (options.mask_in) t["mask_in"] = Mask(p.b() * i, 10);
  if (options.mask_cell) t["mask_cell"] = Mask(p.b() * c, 11);
  return p;
}

// Buffers, arguments and results of one run of the kernels, each buffer of
// exactly its size.
class LayerRun {
 public:
  explicit LayerRun(const Problem& problem) : problem_(problem) {
    const SruShape& shape = problem.shape;
    const int64_t n = problem.n(), b = problem.b(), c = problem.c();
    const int64_t i = shape.input_size, p = shape.projection_size;
    for (const auto& [name, values] : problem.tensors) {
      buffers_[name].assign(values.begin(), values.end());
    }
    SruForwardArgs<float>& args = backward_.forward;
    args.shape = shape;
    args.layout = {b, n, problem_.cu.data()};
    args.weights.projection_in = Given("projection_in", i, p);
    args.weights.projection =
        Given("projection", p > 0 ? p : i, shape.projected_cols());
    args.weights.projection_bias = Pointer("projection_bias");
    args.weights.v = Pointer("v");
    args.weights.bias = Pointer("bias");
    args.weights.norm_weight = Pointer("norm_weight");
    args.weights.norm_bias = Pointer("norm_bias");
    args.x = Given("x", n, i);
    args.mask_in = Given("mask_in", b, i);
    args.mask_cell = Given("mask_cell", b, c);
    args.c_first = Given("c_first", b, c);
    args.y = Output("y", n, c);
    args.c_last = Output("c_last", b, c);
    if (shape.layer_norm == NormPlace::kBefore || args.mask_in) {
      args.projection_input = Output("projection_input", n, i);
    }
    if (p > 0) args.low_rank = Output("low_rank", n, p);
    args.u = Output("u", n, shape.projected_cols());
    args.c = Output("c", n, c);
    if (shape.layer_norm == NormPlace::kAfter) {
      args.norm_input = Output("norm_input", n, c);
    }
    if (shape.layer_norm != NormPlace::kNone) {
      args.norm_statistics = Output("norm_statistics", n, 2);
    }
  }
  LayerRun(const LayerRun&) = delete;

  SruForwardArgs<float>& forward() { return backward_.forward; }
  SruBackwardArgs<float>& backward() { return backward_; }
  const std::vector<float>& operator[](const std::string& name) {
    return buffers_.at(name);
  }

  void Forward() { ASSERT_TRUE(SruForward(forward()).ok()); }

  void PrepareBackward(const std::vector<double>& dy,
                       const std::vector<double>& dc_last) {
    const SruShape& shape = problem_.shape;
    const int64_t n = problem_.n(), b = problem_.b(), c = problem_.c();
    const int64_t i = shape.input_size, p = shape.projection_size;
    buffers_["dy"].assign(dy.begin(), dy.end());
    buffers_["dc_last"].assign(dc_last.begin(), dc_last.end());
    backward_.dy = Given("dy", n, c);
    backward_.dc_last = Given("dc_last", b, c);
    backward_.dx = Output("dx", n, i);
    backward_.dc_first = Output("dc_first", b, c);
    auto& g = backward_.gradients;
    if (p > 0) g.projection_in = Output("dprojection_in", i, p);
    g.projection = Output("dprojection", p > 0 ? p : i, shape.projected_cols());
    const auto like = [&](const std::string& name) -> float* {
      if (!buffers_.count(name)) return nullptr;
      return Output("d" + name, 1, buffers_[name].size()).data;
    };
    g.projection_bias = like("projection_bias");
    g.v = like("v");
    g.bias = like("bias");
    g.norm_weight = like("norm_weight");
    g.norm_bias = like("norm_bias");
    backward_.dprojection_input = Output("dprojection_input", n, i);
    if (p > 0) backward_.dlow_rank = Output("dlow_rank", n, p);
    backward_.dnorm_input = Output("dnorm_input", n, c);
    backward_.channel_partials = Output("channel_partials", b, 4 * c);
  }

  void Backward() { ASSERT_TRUE(SruBackward(backward_).ok()); }

 private:
  Matrix<float> Given(const std::string& name, int64_t rows, int64_t cols) {
    const auto found = buffers_.find(name);
    if (found == buffers_.end()) return {};
    EXPECT_EQ(static_cast<int64_t>(found->second.size()), rows * cols) << name;
    return {found->second.data(), rows, cols};
  }
  float* Pointer(const std::string& name) {
    const auto found = buffers_.find(name);
    return found == buffers_.end() ? nullptr : found->second.data();
  }
  Matrix<float> Output(const std::string& name, int64_t rows, int64_t cols) {
    buffers_[name].assign(rows * cols, kUnwritten);
    return {buffers_[name].data(), rows, cols};
  }

  const Problem problem_;
  std::map<std::string, std::vector<float>> buffers_;
  SruBackwardArgs<float> backward_;
};

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Layer normalisation divides a row, rounding errors with it, by its standard
// deviation, which is small in some rows of very few channels.
double Stretch(const Problem& problem, LayerRun& run) {
  double largest = 1.0;
  if (problem.shape.layer_norm == NormPlace::kNone) return largest;
  for (int64_t row = 0; row < problem.n(); ++row) {
    largest = std::max(largest, double{run["norm_statistics"][2 * row + 1]});
  }
  return largest;
}

// Every gradient against central differences at about 25 elements a tensor.
void CheckAgainstReference(const Problem& problem) {
  const ReferenceOutput want =
      ReferenceSru(problem.shape, problem.cu, problem.tensors);
  LayerRun run(problem);
  run.Forward();
  const double stretch = Stretch(problem, run);
  EXPECT_TRUE(Near(run["y"], want.y, 2e-6 * stretch)) << "y";
  EXPECT_TRUE(Near(run["c_last"], want.c_last, 2e-6 * stretch)) << "c_last";

  const std::vector<double> dy = RandomValues(want.y.size(), 20);
  const std::vector<double> dc = RandomValues(want.c_last.size(), 21);
  run.PrepareBackward(dy, dc);
  run.Backward();
  const auto loss = [&](const Tensors& tensors) {
    const ReferenceOutput out =
        ReferenceSru(problem.shape, problem.cu, tensors);
    return Dot(out.y, dy) + Dot(out.c_last, dc);
  };
  for (const auto& [name, values] : problem.tensors) {
    if (name == "mask_in" || name == "mask_cell") continue;
    const int64_t step = 1 + static_cast<int64_t>(values.size()) / 25;
    EXPECT_TRUE(Near(run["d" + name],
                     NumericGradient(loss, problem.tensors, name, step),
                     5e-6 * stretch, step))
        << "gradient of " << name;
  }
}

std::vector<SruShape> AllShapes(int64_t hidden_size) {
  std::vector<SruShape> shapes;
  for (int bits = 0; bits < 144; ++bits) {
    SruShape shape;
    shape.hidden_size = hidden_size;
    shape.num_directions = 1 + bits % 2;
    shape.use_tanh = bits / 2 % 2;
    shape.has_step_coefficients = bits / 4 % 2;
    shape.projection_size = bits / 8 % 2 ? 1 + hidden_size / 2 : 0;
    shape.skip = static_cast<SruSkip>(bits / 16 % 3);
    shape.layer_norm = static_cast<NormPlace>(bits / 48);
    shape.skip_scale = 1.375f;
    shape.input_size =
        shape.skip == SruSkip::kInput ? shape.channels() : hidden_size + 2;
    shapes.push_back(shape);
  }
  return shapes;
}

std::string Describe(const SruShape& s) {
  return absl::StrCat("I ", s.input_size, " H ", s.hidden_size, " D ",
                      s.num_directions, " P ", s.projection_size, " skip ",
                      static_cast<int>(s.skip), " tanh ", s.use_tanh, " norm ",
                      static_cast<int>(s.layer_norm), " steps ",
                      s.has_step_coefficients);
}

class SruTest : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(2); }
};

TEST_F(SruTest, EveryCombinationOfOptionsAgreesWithTheReference) {
  int index = 0;
  for (int64_t hidden_size : {1, 3, 7}) {
    for (const SruShape& shape : AllShapes(hidden_size)) {
      SCOPED_TRACE(Describe(shape));
      const int variant = index++ * 5 % 16;
      Options options;
      options.mask_in = variant & 1;
      options.mask_cell = variant & 2;
      options.c_first = !(variant & 4);
      options.projection_bias = variant & 8;
      CheckAgainstReference(MakeProblem(shape, {3, 0, 1, 5}, options));
    }
  }
}

TEST_F(SruTest, MaskedLayersAgreeWithTheReference) {
  for (const SruShape& shape : AllShapes(5)) {
    SCOPED_TRACE(Describe(shape));
    CheckAgainstReference(MakeProblem(shape, {4, 2}, {true, true, true, true}));
  }
}

TEST_F(SruTest, WiderThanAVectorAndOdd) {
  for (int64_t hidden_size : {16, 33, 70}) {
    SruShape shape;
    shape.hidden_size = shape.input_size = hidden_size;
    shape.layer_norm = NormPlace::kBefore;
    SCOPED_TRACE(Describe(shape));
    CheckAgainstReference(MakeProblem(shape, {3, 2}, {true, true}));
    shape.skip = SruSkip::kTransform;
    shape.layer_norm = NormPlace::kAfter;
    shape.use_tanh = true;
    shape.num_directions = 2;
    CheckAgainstReference(MakeProblem(shape, {1, 4}, {false, true}));
  }
}

TEST_F(SruTest, EveryInstructionSetAgreesWithTheReference) {
  ForEachInstructionSet([&] {
    for (const SruShape& shape : AllShapes(37)) {
      if (shape.projection_size == 0) continue;
      SCOPED_TRACE(Describe(shape));
      const Problem problem = MakeProblem(shape, {2, 3}, {true, true});
      LayerRun run(problem);
      run.Forward();
      const ReferenceOutput want =
          ReferenceSru(problem.shape, problem.cu, problem.tensors);
      EXPECT_TRUE(Near(run["y"], want.y, 2e-6 * Stretch(problem, run)));
    }
  });
}

TEST_F(SruTest, EmptyBatchesPassTheStateThrough) {
  SruShape shape;
  shape.input_size = shape.hidden_size = 4;
  CheckAgainstReference(MakeProblem(shape, {0, 0, 0}, {true, true}));
  CheckAgainstReference(MakeProblem(shape, {}, {true, true}));
  CheckAgainstReference(MakeProblem(shape, {1}, {}));
}

// Lengths that give many blocks of rows and of channels.
Problem LargeProblem(NormPlace norm, int64_t directions) {
  SruShape shape;
  shape.hidden_size = 100;
  shape.num_directions = directions;
  shape.input_size = shape.channels();
  shape.layer_norm = norm;
  return MakeProblem(shape, {700, 1, 0, 33, 900, 512, 64},
                     {true, true, true, false});
}

const char* const kGradients[] = {"dx", "dc_first", "dprojection", "dv",
                                  "dbias"};

TEST_F(SruTest, ThreadsDoNotChangeBits) {
  for (NormPlace norm :
       {NormPlace::kNone, NormPlace::kBefore, NormPlace::kAfter}) {
    for (int64_t directions : {1, 2}) {
      const Problem problem = LargeProblem(norm, directions);
      const std::vector<double> dy =
          RandomValues(problem.n() * problem.c(), 20);
      const std::vector<double> dc =
          RandomValues(problem.b() * problem.c(), 21);
      const auto run_with = [&](LayerRun& run, int threads) {
        omp_set_num_threads(threads);
        run.Forward();
        run.PrepareBackward(dy, dc);
        run.Backward();
      };
      LayerRun one(problem);
      run_with(one, 1);
      for (int threads = 2; threads <= 4; ++threads) {
        SCOPED_TRACE(absl::StrCat(threads, " threads"));
        LayerRun other(problem);
        run_with(other, threads);
        EXPECT_TRUE(SameBits(one["y"], other["y"]));
        EXPECT_TRUE(SameBits(one["c_last"], other["c_last"]));
        for (const char* name : kGradients) {
          EXPECT_TRUE(SameBits(one[name], other[name])) << name;
        }
        if (norm == NormPlace::kNone) continue;
        EXPECT_TRUE(SameBits(one["dnorm_weight"], other["dnorm_weight"]));
        EXPECT_TRUE(SameBits(one["dnorm_bias"], other["dnorm_bias"]));
      }
    }
  }
}

std::vector<double> RowsOf(const std::vector<double>& tensor, int64_t cols,
                           int64_t begin, int64_t end) {
  return {tensor.begin() + begin * cols, tensor.begin() + end * cols};
}

// Rows [begin, end) of the problem as sequence b alone.
Problem Part(const Problem& whole, int64_t b, int64_t begin, int64_t end) {
  Problem part = whole;
  part.cu = {0, end - begin};
  const int64_t i = whole.shape.input_size, c = whole.c();
  const auto cut = [&](const char* name, int64_t cols, int64_t from,
                       int64_t to) {
    const auto found = whole.tensors.find(name);
    if (found == whole.tensors.end()) return;
    part.tensors[name] = RowsOf(found->second, cols, from, to);
  };
  cut("x", i, begin, end);
  cut("c_first", c, b, b + 1);
  cut("mask_in", i, b, b + 1);
  cut("mask_cell", c, b, b + 1);
  return part;
}

std::vector<float> RowsOf(const std::vector<float>& tensor, int64_t cols,
                          int64_t begin, int64_t end) {
  return {tensor.begin() + begin * cols, tensor.begin() + end * cols};
}

TEST_F(SruTest, ASequenceAloneHasTheBitsItHasInABatch) {
  for (NormPlace norm :
       {NormPlace::kNone, NormPlace::kBefore, NormPlace::kAfter}) {
    const Problem batch = LargeProblem(norm, 2);
    LayerRun together(batch);
    together.Forward();
    for (int64_t b = 0; b < batch.b(); ++b) {
      omp_set_num_threads(1 + b % 4);
      LayerRun alone(Part(batch, b, batch.cu[b], batch.cu[b + 1]));
      alone.Forward();
      EXPECT_TRUE(SameBits(alone["y"], RowsOf(together["y"], batch.c(),
                                              batch.cu[b], batch.cu[b + 1])));
      EXPECT_TRUE(SameBits(alone["c_last"],
                           RowsOf(together["c_last"], batch.c(), b, b + 1)));
    }
  }
}

TEST_F(SruTest, ChunksInTimeWithCarriedStateHaveTheBitsOfTheWhole) {
  Problem whole = LargeProblem(NormPlace::kBefore, 1);
  whole = Part(whole, 0, whole.cu[0], whole.cu[1]);
  LayerRun once(whole);
  once.Forward();
  for (int64_t chunk : {1, 7, 64, 129}) {
    std::vector<double> state = whole.tensors["c_first"];
    for (int64_t begin = 0; begin < whole.n(); begin += chunk) {
      const int64_t end = std::min(begin + chunk, whole.n());
      Problem part = Part(whole, 0, begin, end);
      part.tensors["c_first"] = state;
      LayerRun run(part);
      run.forward().c = {};                  // as at inference
      run.forward().c_last = Matrix<float>(  // in place
          const_cast<float*>(run.forward().c_first.data), 1, whole.c());
      run.Forward();
      ASSERT_TRUE(SameBits(run["y"], RowsOf(once["y"], whole.c(), begin, end)))
          << "chunk " << chunk << " at " << begin;
      state.assign(run["c_first"].begin(), run["c_first"].end());
    }
    EXPECT_TRUE(SameBits({state.begin(), state.end()}, once["c_last"]));
  }
}

TEST_F(SruTest, InferenceNeedsNoSavedBuffers) {
  const Problem problem = LargeProblem(NormPlace::kAfter, 2);
  LayerRun training(problem), inference(problem);
  training.Forward();
  inference.forward().c = {};
  inference.forward().norm_input = {};
  inference.forward().norm_statistics = {};
  inference.Forward();
  EXPECT_TRUE(SameBits(training["y"], inference["y"]));
  EXPECT_TRUE(SameBits(training["c_last"], inference["c_last"]));
}

TEST_F(SruTest, UnwantedGradientsMayBeAbsent) {
  for (NormPlace norm :
       {NormPlace::kNone, NormPlace::kBefore, NormPlace::kAfter}) {
    const Problem problem = LargeProblem(norm, 1);
    const std::vector<double> dy = RandomValues(problem.n() * problem.c(), 20);
    const std::vector<double> dc = RandomValues(problem.b() * problem.c(), 21);
    LayerRun all(problem), few(problem);
    for (LayerRun* run : {&all, &few}) {
      run->Forward();
      run->PrepareBackward(dy, dc);
    }
    few.backward().dx = {};
    few.backward().dc_first = {};
    few.backward().gradients.v = nullptr;
    all.Backward();
    few.Backward();
    EXPECT_TRUE(SameBits(all["dprojection"], few["dprojection"]));
    EXPECT_TRUE(SameBits(all["dbias"], few["dbias"]));
    EXPECT_EQ(few["dv"][0], kUnwritten);
    if (norm == NormPlace::kNone) continue;
    EXPECT_TRUE(SameBits(all["dnorm_weight"], few["dnorm_weight"]));
  }
}

TEST_F(SruTest, ContradictingShapesAreRefused) {
  const auto code_after = [](auto change) {
    LayerRun run(LargeProblem(NormPlace::kBefore, 1));
    change(run.forward());
    return SruForward(run.forward()).code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  using Args = SruForwardArgs<float>;
  EXPECT_EQ(code_after([](Args& a) { a.y.cols -= 1; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.u = {}; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.projection_input = {}; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.layout.num_rows += 1; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.shape.input_size = 3; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.weights.v = nullptr; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.mask_cell.rows = 1; }), invalid);
}

}  // namespace
}  // namespace recurve::cpu
