// Layers with packed weights, which project and recur at once, against the same
// layers that project all rows first.
#include "kernels/cpu/fused_layer.h"

#include <omp.h>

#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "hwy/aligned_allocator.h"
#include "kernels/cell_args.h"
#include "kernels/cpu/channel_groups.h"
#include "kernels/cpu/layers.h"
#include "kernels/cpu/reference_test_util.h"
#include "kernels/cpu/test_util.h"

namespace recurve::cpu {
namespace {

constexpr float kUnwritten = 12345.0f;

// Random arguments and the memory behind them.
class Problem {
 public:
  Problem(std::vector<int64_t> cu_seqlens, uint32_t seed)
      : cu_(std::move(cu_seqlens)), random_(seed) {}

  bool Coin() { return random_() % 2 == 0; }
  int64_t Choose(std::initializer_list<int64_t> values) {
    return values.begin()[random_() % values.size()];
  }

  int64_t n() const { return cu_.back(); }
  int64_t b() const { return static_cast<int64_t>(cu_.size()) - 1; }
  SequenceLayout layout() const { return {b(), n(), cu_.data()}; }

  Matrix<float> New(int64_t rows, int64_t cols, float bound = 1.0f) {
    memory_.push_back(RandomFloats(rows * cols + 1, random_(), bound));
    return {memory_.back().data(), rows, cols};
  }
  Matrix<float> Sometimes(int64_t rows, int64_t cols) {
    return Coin() ? New(rows, cols) : Matrix<float>();
  }
  Matrix<float> Unwritten(int64_t rows, int64_t cols) {
    memory_.emplace_back(rows * cols + 1, kUnwritten);
    return {memory_.back().data(), rows, cols};
  }
  PackedProjection Packed(const ProjectionShape& projection,
                          Matrix<const float> weights) {
    const ChannelGroups groups(projection, Precision::kFloat32);
    packed_ = hwy::AllocateAligned<std::byte>(groups.packed_bytes() + 1);
    groups.Pack(weights, packed_.get());
    return {Precision::kFloat32, packed_.get()};
  }

 private:
  const std::vector<int64_t> cu_;
  std::minstd_rand random_;
  std::vector<std::vector<float>> memory_;
  hwy::AlignedFreeUniquePtr<std::byte[]> packed_;
};

std::vector<float> Values(Matrix<float> m) {
  std::vector<float> values;
  if (!m) return values;
  for (int64_t r = 0; r < m.rows; ++r) {
    values.insert(values.end(), m.row(r), m.row(r) + m.cols);
  }
  return values;
}

SruForwardArgs<float> RandomSru(Problem& p) {
  SruForwardArgs<float> args;
  SruShape& shape = args.shape;
  shape.hidden_size = p.Choose({1, 3, 16, 40, 48, 97, 150, 300});
  shape.num_directions = p.Choose({1, 2});
  shape.skip = static_cast<SruSkip>(p.Choose({0, 1, 2}));
  shape.skip_scale = 1.25f;
  shape.input_size = shape.skip == SruSkip::kInput
                         ? shape.channels()
                         : p.Choose({1, 20, 100, 1100});
  shape.projection_size = p.Choose({0, 0, 7});
  shape.use_tanh = p.Coin();
  shape.has_step_coefficients = p.Coin();
  shape.layer_norm = static_cast<NormPlace>(p.Choose({0, 1, 2}));
  const int64_t i = shape.input_size, c = shape.channels();
  const ProjectionShape projection = shape.projection();
  args.layout = p.layout();
  if (shape.projection_size > 0) {
    args.weights.projection_in = p.New(i, shape.projection_size, 0.2f);
    args.low_rank = p.New(p.n(), shape.projection_size);
  }
  args.weights.projection =
      p.New(projection.depth, shape.projected_cols(), 0.2f);
  args.weights.projection_bias = p.Sometimes(1, shape.projected_cols()).data;
  args.weights.v = p.New(2, c).data;
  args.weights.bias = p.New(2, c).data;
  args.weights.norm_weight = p.New(1, std::max(i, c)).data;
  args.weights.norm_bias = p.New(1, std::max(i, c)).data;
  args.x = p.New(p.n(), i);
  args.mask_in = p.Sometimes(p.b(), i);
  args.mask_cell = p.Sometimes(p.b(), c);
  args.c_first = p.Sometimes(p.b(), c);
  args.projection_input = p.New(p.n(), i);
  return args;
}

QrnnForwardArgs<float> RandomQrnn(Problem& p) {
  QrnnForwardArgs<float> args;
  QrnnShape& shape = args.shape;
  shape.hidden_size = p.Choose({1, 3, 16, 40, 48, 97, 150, 300});
  shape.num_directions = p.Choose({1, 2});
  shape.window = p.Choose({1, 2});
  shape.output_gate = p.Coin();
  shape.zoneout = p.Coin() ? 0.25f : 0.0f;
  shape.input_size = p.Choose({1, 20, 100, 600});
  const int64_t i = shape.input_size, c = shape.channels();
  args.layout = p.layout();
  args.weights.projection =
      p.New(shape.window * i, shape.projected_cols(), 0.2f);
  args.weights.bias = p.New(1, shape.projected_cols()).data;
  args.x = p.New(p.n(), i);
  args.zoneout_mask = p.Sometimes(p.n(), c);
  args.c_first = p.Sometimes(p.b(), c);
  if (shape.window == 2) {
    args.window_rows = p.New(p.n(), shape.num_directions * 2 * i);
    if (shape.num_directions == 1) args.x_previous = p.Sometimes(p.b(), i);
  }
  return args;
}

// What a forward pass of `args` gives, with buffers of its own.
std::vector<float> Run(Problem& p, SruForwardArgs<float> args) {
  args.y = p.Unwritten(p.n(), args.shape.channels());
  args.c_last = p.Unwritten(p.b(), args.shape.channels());
  EXPECT_TRUE(SruForward(args).ok());
  std::vector<float> results = Values(args.y);
  for (float value : Values(args.c_last)) results.push_back(value);
  return results;
}

std::vector<float> Run(Problem& p, QrnnForwardArgs<float> args) {
  args.y = p.Unwritten(p.n(), args.shape.channels());
  args.c_last = p.Unwritten(p.b(), args.shape.channels());
  EXPECT_TRUE(QrnnForward(args).ok());
  std::vector<float> results = Values(args.y);
  for (float value : Values(args.c_last)) results.push_back(value);
  return results;
}

template <typename Args>
void ExpectFusedHasTheBitsOfProductFirst(Problem& p, Args args,
                                         const ProjectionShape& projection) {
  omp_set_num_threads(1);
  args.u = p.New(p.n(), args.shape.projected_cols());
  const std::vector<float> want = Run(p, args);
  args.u = {};
  args.weights.packed = p.Packed(projection, args.weights.projection);
  for (int threads = 1; threads <= 3; ++threads) {
    SCOPED_TRACE(absl::StrCat(threads, " threads"));
    omp_set_num_threads(threads);
    EXPECT_TRUE(SameBits(Run(p, args), want));
  }
}

// Batches whose sequences end within tiles, at their ends and far beyond.
std::vector<int64_t> SomeLengths(uint32_t seed) {
  switch (seed % 6) {
    case 0:
      return Offsets({300});
    case 1:
      return Offsets({64, 0, 64, 1, 0, 127, 0});
    case 2:
      return Offsets({0, 0, 0});
    case 3:
      return Offsets(std::vector<int64_t>(130, 1));
    case 4:
      return Offsets({0, 1, 200, 63, 2, 0, 0, 90});
    default:
      return RandomCuSeqlens(20, 60, seed);
  }
}

TEST(FusedLayerTest, SruHasTheBitsOfProductFirst) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Problem p(SomeLengths(seed), seed + 1);
    const SruForwardArgs<float> args = RandomSru(p);
    ExpectFusedHasTheBitsOfProductFirst(p, args, args.shape.projection());
  }
}

TEST(FusedLayerTest, QrnnHasTheBitsOfProductFirst) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Problem p(SomeLengths(seed), seed + 1);
    const QrnnForwardArgs<float> args = RandomQrnn(p);
    ExpectFusedHasTheBitsOfProductFirst(p, args, args.shape.projection());
  }
}

TEST(FusedLayerTest, EveryInstructionSetHasTheBitsOfProductFirst) {
  ForEachInstructionSet([] {
    for (uint32_t seed = 200; seed < 210; ++seed) {
      Problem p(SomeLengths(seed), seed);
      const SruForwardArgs<float> sru = RandomSru(p);
      ExpectFusedHasTheBitsOfProductFirst(p, sru, sru.shape.projection());
      const QrnnForwardArgs<float> qrnn = RandomQrnn(p);
      ExpectFusedHasTheBitsOfProductFirst(p, qrnn, qrnn.shape.projection());
    }
  });
}

TEST(FusedLayerTest, TheStateAfterMayTakeThePlaceOfTheStateBefore) {
  Problem p(Offsets({70, 0, 1, 150}), 5);
  SruForwardArgs<float> args;
  args.shape.input_size = args.shape.hidden_size = 100;
  args.layout = p.layout();
  args.weights.projection = p.New(100, 300, 0.2f);
  args.weights.packed =
      p.Packed(args.shape.projection(), args.weights.projection);
  args.weights.v = p.New(2, 100).data;
  args.weights.bias = p.New(2, 100).data;
  args.x = p.New(p.n(), 100);
  const Matrix<float> state = p.New(p.b(), 100);
  args.c_first = state;
  args.y = p.Unwritten(p.n(), 100);
  args.c_last = p.Unwritten(p.b(), 100);
  ASSERT_TRUE(SruForward(args).ok());
  const std::vector<float> y = Values(args.y), c = Values(args.c_last);
  args.c_last = state;
  ASSERT_TRUE(SruForward(args).ok());
  EXPECT_TRUE(SameBits(Values(args.y), y));
  EXPECT_TRUE(SameBits(Values(state), c));
}

TEST(ChannelGroupsTest, CoverEveryChannelOnceAndFillTheirBytes) {
  for (int64_t hidden : {1, 15, 16, 100, 512, 1000}) {
    for (int64_t gates = 2; gates <= 6; ++gates) {
      for (int64_t depth : {1, 64, 1024, 20000}) {
        const ProjectionShape projection = {depth, gates, hidden, 2};
        const ChannelGroups groups(projection, Precision::kFloat32);
        int64_t channels = 0, bytes = 0;
        for (int64_t g = 0; g < groups.count(); ++g) {
          const ChannelGroup group = groups.group(g);
          EXPECT_EQ(group.direction * hidden + group.unit, channels);
          EXPECT_LE(gates * group.count, kMaxGroupColumns);
          channels += group.count;
          EXPECT_EQ(groups.Columns(nullptr, g).data,
                    static_cast<const std::byte*>(nullptr) + bytes);
          bytes += PackedBytes(Precision::kFloat32, depth, gates * group.count);
        }
        EXPECT_EQ(channels, 2 * hidden);
        EXPECT_EQ(bytes, groups.packed_bytes());
      }
    }
  }
}

}  // namespace
}  // namespace recurve::cpu
