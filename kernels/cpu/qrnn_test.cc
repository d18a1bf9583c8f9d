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

// Which optional inputs a case has.
struct Options {
  bool c_first = true;
  bool x_previous = false;
  bool zoneout_mask = false;
};

struct Problem {
  QrnnShape shape;
  std::vector<int64_t> cu;
  Tensors tensors;

  int64_t n() const { return cu.back(); }
  int64_t b() const { return static_cast<int64_t>(cu.size()) - 1; }
  int64_t c() const { return shape.channels(); }
};

Problem MakeProblem(const QrnnShape& shape, const std::vector<int64_t>& lengths,
                    const Options& options) {
  Problem p{shape, Offsets(lengths), {}};
  const int64_t i = shape.input_size, inner = shape.window * i;
  Tensors& t = p.tensors;
  t["x"] = RandomValues(p.n() * i, 1, 1.5);
  t["projection"] =
      RandomValues(inner * shape.projected_cols(), 2, 2.0 / std::sqrt(inner));
  t["bias"] = RandomValues(shape.projected_cols(), 3);
  if (options.c_first) t["c_first"] = RandomValues(p.b() * p.c(), 4);
  if (options.x_previous) t["x_previous"] = RandomValues(p.b() * i, 5);
  if (options.zoneout_mask) {
    std::vector<double> mask = RandomValues(p.n() * p.c(), 6);
    for (double& value : mask) value = value > -0.5 ? 1.0 : 0.0;
    t["zoneout_mask"] = mask;
  }
  return p;
}

// Buffers, arguments and results of one run of the kernels, each buffer of
// exactly its size.
class LayerRun {
 public:
  explicit LayerRun(const Problem& problem) : problem_(problem) {
    const QrnnShape& shape = problem.shape;
    const int64_t n = problem.n(), b = problem.b(), c = problem.c();
    const int64_t i = shape.input_size;
    for (const auto& [name, values] : problem.tensors) {
      buffers_[name].assign(values.begin(), values.end());
    }
    QrnnForwardArgs<float>& args = backward_.forward;
    args.shape = shape;
    args.layout = {b, n, problem_.cu.data()};
    args.weights.projection =
        Given("projection", shape.window * i, shape.projected_cols());
    args.weights.bias = buffers_["bias"].data();
    args.x = Given("x", n, i);
    args.zoneout_mask = Given("zoneout_mask", n, c);
    args.c_first = Given("c_first", b, c);
    args.x_previous = Given("x_previous", b, i);
    args.y = Output("y", n, c);
    args.c_last = Output("c_last", b, c);
    if (shape.window == 2) {
      args.window_rows = Output("window_rows", n, shape.num_directions * 2 * i);
      if (shape.num_directions == 1) args.x_last = Output("x_last", b, i);
    }
    args.u = Output("u", n, shape.projected_cols());
    args.c = Output("c", n, c);
  }
  LayerRun(const LayerRun&) = delete;

  QrnnForwardArgs<float>& forward() { return backward_.forward; }
  QrnnBackwardArgs<float>& backward() { return backward_; }
  const std::vector<float>& operator[](const std::string& name) {
    return buffers_.at(name);
  }

  void Forward() { ASSERT_TRUE(QrnnForward(forward()).ok()); }

  void PrepareBackward(const std::vector<double>& dy,
                       const std::vector<double>& dc_last) {
    const QrnnShape& shape = problem_.shape;
    const int64_t n = problem_.n(), b = problem_.b(), c = problem_.c();
    const int64_t i = shape.input_size, cols = shape.projected_cols();
    buffers_["dy"].assign(dy.begin(), dy.end());
    buffers_["dc_last"].assign(dc_last.begin(), dc_last.end());
    backward_.dy = Given("dy", n, c);
    backward_.dc_last = Given("dc_last", b, c);
    backward_.dx = Output("dx", n, i);
    backward_.dc_first = Output("dc_first", b, c);
    backward_.gradients.projection =
        Output("dprojection", shape.window * i, cols);
    backward_.gradients.bias = Output("dbias", 1, cols).data;
    backward_.dwindow_rows =
        Output("dwindow_rows", n, shape.num_directions * 2 * i);
    backward_.channel_partials = Output("channel_partials", b, cols);
  }

  void Backward() { ASSERT_TRUE(QrnnBackward(backward_).ok()); }

 private:
  Matrix<float> Given(const std::string& name, int64_t rows, int64_t cols) {
    const auto found = buffers_.find(name);
    if (found == buffers_.end()) return {};
    EXPECT_EQ(static_cast<int64_t>(found->second.size()), rows * cols) << name;
    return {found->second.data(), rows, cols};
  }
  Matrix<float> Output(const std::string& name, int64_t rows, int64_t cols) {
    buffers_[name].assign(rows * cols, 12345.0f);
    return {buffers_[name].data(), rows, cols};
  }

  const Problem problem_;
  std::map<std::string, std::vector<float>> buffers_;
  QrnnBackwardArgs<float> backward_;
};

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Every gradient against central differences at about 25 elements a tensor.
void CheckAgainstReference(const Problem& problem) {
  const ReferenceOutput want =
      ReferenceQrnn(problem.shape, problem.cu, problem.tensors);
  LayerRun run(problem);
  run.Forward();
  EXPECT_TRUE(Near(run["y"], want.y, 2e-6)) << "y";
  EXPECT_TRUE(Near(run["c_last"], want.c_last, 2e-6)) << "c_last";
  if (run.forward().x_last) {
    EXPECT_TRUE(Near(run["x_last"], want.x_last, 0.0)) << "x_last";
  }

  const std::vector<double> dy = RandomValues(want.y.size(), 20);
  const std::vector<double> dc = RandomValues(want.c_last.size(), 21);
  run.PrepareBackward(dy, dc);
  run.Backward();
  const auto loss = [&](const Tensors& tensors) {
    const ReferenceOutput out =
        ReferenceQrnn(problem.shape, problem.cu, tensors);
    return Dot(out.y, dy) + Dot(out.c_last, dc);
  };
  for (const char* name : {"x", "projection", "bias", "c_first"}) {
    if (!problem.tensors.count(name)) continue;
    const int64_t step =
        1 + static_cast<int64_t>(problem.tensors.at(name).size()) / 25;
    EXPECT_TRUE(Near(run[absl::StrCat("d", name)],
                     NumericGradient(loss, problem.tensors, name, step), 5e-6,
                     step))
        << "gradient of " << name;
  }
}

std::vector<QrnnShape> AllShapes(int64_t input_size, int64_t hidden_size) {
  std::vector<QrnnShape> shapes;
  for (int bits = 0; bits < 16; ++bits) {
    QrnnShape shape;
    shape.input_size = input_size;
    shape.hidden_size = hidden_size;
    shape.num_directions = 1 + bits % 2;
    shape.window = 1 + bits / 2 % 2;
    shape.output_gate = bits / 4 % 2;
    shape.zoneout = bits / 8 % 2 ? 0.25f : 0.0f;
    shapes.push_back(shape);
  }
  return shapes;
}

std::string Describe(const QrnnShape& s) {
  return absl::StrCat("I ", s.input_size, " H ", s.hidden_size, " D ",
                      s.num_directions, " window ", s.window, " output gate ",
                      s.output_gate, " zoneout ", s.zoneout);
}

class QrnnTest : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(2); }
};

TEST_F(QrnnTest, EveryCombinationOfOptionsAgreesWithTheReference) {
  for (int64_t hidden_size : {1, 3, 7, 33}) {
    for (const QrnnShape& shape : AllShapes(5, hidden_size)) {
      SCOPED_TRACE(Describe(shape));
      for (int variant = 0; variant < 4; ++variant) {
        Options options;
        options.c_first = variant & 1;
        options.zoneout_mask = variant & 2;
        options.x_previous =
            options.c_first && shape.window == 2 && shape.num_directions == 1;
        CheckAgainstReference(MakeProblem(shape, {3, 0, 1, 5}, options));
      }
    }
  }
}

TEST_F(QrnnTest, EveryInstructionSetAgreesWithTheReference) {
  ForEachInstructionSet([&] {
    for (const QrnnShape& shape : AllShapes(5, 37)) {
      SCOPED_TRACE(Describe(shape));
      const Problem problem = MakeProblem(shape, {2, 3}, {true, false, true});
      LayerRun run(problem);
      run.Forward();
      const ReferenceOutput want =
          ReferenceQrnn(problem.shape, problem.cu, problem.tensors);
      EXPECT_TRUE(Near(run["y"], want.y, 2e-6));
    }
  });
}

TEST_F(QrnnTest, EmptyBatchesPassTheStateThrough) {
  QrnnShape shape;
  shape.input_size = shape.hidden_size = 4;
  shape.window = 2;
  CheckAgainstReference(MakeProblem(shape, {0, 0, 0}, {true, true}));
  CheckAgainstReference(MakeProblem(shape, {}, {true, true}));
  CheckAgainstReference(MakeProblem(shape, {1}, {false, false}));
}

// Lengths that give many blocks of rows and of channels.
Problem LargeProblem(int64_t window, int64_t directions) {
  QrnnShape shape;
  shape.input_size = 70;
  shape.hidden_size = 100;
  shape.window = window;
  shape.num_directions = directions;
  return MakeProblem(shape, {700, 1, 0, 33, 900, 512, 64},
                     {true, window == 2 && directions == 1, true});
}

TEST_F(QrnnTest, ThreadsDoNotChangeBits) {
  for (int64_t window : {1, 2}) {
    for (int64_t directions : {1, 2}) {
      const Problem problem = LargeProblem(window, directions);
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
        for (const char* name :
             {"y", "c_last", "dx", "dc_first", "dprojection", "dbias"}) {
          EXPECT_TRUE(SameBits(one[name], other[name])) << name;
        }
      }
    }
  }
}

template <typename T>
std::vector<T> RowsOf(const std::vector<T>& tensor, int64_t cols, int64_t begin,
                      int64_t end) {
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
  cut("zoneout_mask", c, begin, end);
  cut("c_first", c, b, b + 1);
  cut("x_previous", i, b, b + 1);
  return part;
}

TEST_F(QrnnTest, ASequenceAloneHasTheBitsItHasInABatch) {
  for (int64_t window : {1, 2}) {
    for (int64_t directions : {1, 2}) {
      const Problem batch = LargeProblem(window, directions);
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
}

TEST_F(QrnnTest, ChunksInTimeWithCarriedStateHaveTheBitsOfTheWhole) {
  Problem whole = LargeProblem(2, 1);
  whole = Part(whole, 0, whole.cu[0], whole.cu[1]);
  LayerRun once(whole);
  once.Forward();
  for (int64_t chunk : {1, 7, 64, 129}) {
    std::vector<double> state = whole.tensors["c_first"];
    std::vector<double> previous = whole.tensors["x_previous"];
    for (int64_t begin = 0; begin < whole.n(); begin += chunk) {
      const int64_t end = std::min(begin + chunk, whole.n());
      Problem part = Part(whole, 0, begin, end);
      part.tensors["c_first"] = state;
      part.tensors["x_previous"] = previous;
      LayerRun run(part);
      QrnnForwardArgs<float>& args = run.forward();
      args.c = {};  // as at inference; states in place
      args.c_last = {const_cast<float*>(args.c_first.data), 1, whole.c()};
      args.x_last = {const_cast<float*>(args.x_previous.data), 1,
                     whole.shape.input_size};
      run.Forward();
      ASSERT_TRUE(SameBits(run["y"], RowsOf(once["y"], whole.c(), begin, end)))
          << "chunk " << chunk << " at " << begin;
      state.assign(run["c_first"].begin(), run["c_first"].end());
      previous.assign(run["x_previous"].begin(), run["x_previous"].end());
    }
    EXPECT_TRUE(SameBits({state.begin(), state.end()}, once["c_last"]));
    EXPECT_TRUE(SameBits({previous.begin(), previous.end()}, once["x_last"]));
  }
}

TEST_F(QrnnTest, UnwantedGradientsMayBeAbsent) {
  for (int64_t window : {1, 2}) {
    const Problem problem = LargeProblem(window, 1);
    const std::vector<double> dy = RandomValues(problem.n() * problem.c(), 20);
    const std::vector<double> dc = RandomValues(problem.b() * problem.c(), 21);
    LayerRun all(problem), few(problem);
    for (LayerRun* run : {&all, &few}) {
      run->Forward();
      run->PrepareBackward(dy, dc);
    }
    few.backward().dx = {};
    few.backward().dwindow_rows = {};
    few.backward().dc_first = {};
    all.Backward();
    few.Backward();
    EXPECT_TRUE(SameBits(all["dprojection"], few["dprojection"]));
    EXPECT_TRUE(SameBits(all["dbias"], few["dbias"]));
  }
}

TEST_F(QrnnTest, ContradictingShapesAreRefused) {
  const auto code_after = [](auto change) {
    LayerRun run(LargeProblem(2, 2));
    change(run.forward());
    return QrnnForward(run.forward()).code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  using Args = QrnnForwardArgs<float>;
  EXPECT_EQ(code_after([](Args& a) { a.y.cols -= 1; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.u = {}; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.window_rows = {}; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.shape.window = 3; }), invalid);
  EXPECT_EQ(code_after([](Args& a) { a.x_last = {a.y.data, 7, 70}; }), invalid);
}

}  // namespace
}  // namespace recurve::cpu
