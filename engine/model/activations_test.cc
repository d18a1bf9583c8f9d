#include "engine/model/activations.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/arena.h"
#include "engine/model/config.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

std::shared_ptr<const Model> Make(const std::string& text) {
  const auto config = ParseModelConfig(text);
  EXPECT_TRUE(config.ok()) << config.status();
  auto model = Model::Create(*config);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

// Every kind of layer and option that has memory of its own.
std::string Everything() {
  return R"(
    input { token_embedding { vocabulary_size: 11 embedding_size: 13 }
            dropout: 0.5 }
    blocks { name: "a" sru { hidden_size: 6 bidirectional: true dropout: 0.5
             rnn_dropout: 0.5 layer_norm: true projection_size: 3
             proj_input_to_hidden_first: true } }
    blocks { name: "b" sru { hidden_size: 7 normalize_after: true
             layer_norm: true num_layers: 1 } }
    blocks { name: "c" qrnn { hidden_size: 9 window: 2 num_layers: 2
             zoneout: 0.5 dropout: 0.5 } }
    output { pooling: POOLING_MAX dropout: 0.5 linear { size: 5 } }
    loss { kind: CROSS_ENTROPY })";
}

constexpr Mode kModes[] = {Mode::kInference, Mode::kGradients, Mode::kTraining};

TEST(ArenaCursor, PiecesAreAlignedAndCopiesShare) {
  ArenaCursor cursor(nullptr);
  const float* first = cursor.Take<float>(1);
  const Matrix<int32_t> second = cursor.Take<int32_t>(5, 7);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(second.data) -
                reinterpret_cast<const std::byte*>(first),
            kAlignment);
  EXPECT_EQ(cursor.bytes(), kAlignment + 192);
  ArenaCursor end = cursor;
  for (const int64_t count : {3, 100, 20}) {
    ArenaCursor copy = cursor;
    copy.Take<float>(count);
    end.Join(copy);
  }
  EXPECT_EQ(end.bytes(), cursor.bytes() + 448);
}

TEST(LayOut, PlanAndUseHaveTheSameBytes) {
  const auto model = Make(Everything());
  std::vector<std::byte> memory(1 << 20);
  for (const Mode mode : kModes) {
    for (const int64_t n : {0, 1, 7, 100}) {
      for (const int64_t b : {1, 3, 120}) {
        const bool gradients = mode != Mode::kInference && b % 2 == 0;
        EXPECT_EQ(LayOut(*model, {mode, n, b, gradients}, nullptr).bytes,
                  LayOut(*model, {mode, n, b, gradients}, memory.data()).bytes);
      }
    }
  }
}

// [first, last) bytes of a view.
template <typename T>
void AddRange(Matrix<T> view,
              std::vector<std::pair<const void*, const void*>>& ranges) {
  if (view) ranges.push_back({view.data, view.data + view.rows * view.cols});
}

// Sorts them.
void ExpectApart(std::vector<std::pair<const void*, const void*>>& ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  }
}

TEST(LayOut, WhatLivesTogetherDoesNotOverlap) {
  const auto model = Make(Everything());
  alignas(64) static std::byte memory[1 << 20];
  const Activations a = LayOut(*model, {Mode::kTraining, 50, 4, true}, memory);
  ASSERT_LE(a.bytes, static_cast<int64_t>(sizeof(memory)));
  std::vector<std::pair<const void*, const void*>> ranges;
  for (const Matrix<float>& view :
       {a.state_in, a.state_out, a.input, a.input_mask, a.pooled, a.output_mask,
        a.output, a.dlinear_input, a.dhidden, a.dstate_in, a.dstate_out}) {
    EXPECT_TRUE(view);
    AddRange(view, ranges);
  }
  EXPECT_FALSE(a.output_tile);
  AddRange(a.pool.argmax, ranges);
  AddRange(Matrix<float>(a.target_weights, 4, 1), ranges);
  AddRange(Matrix<float>(a.row_losses, 4, 1), ranges);
  for (const LayerActivations& layer : a.layers) {
    AddRange(layer.y, ranges);
    if (layer.block_input) AddRange(layer.x, ranges);
    if (const auto* sru = std::get_if<SruActivations>(&layer.cell)) {
      const SruForwardArgs<float>& f = sru->args.forward;
      for (const Matrix<float>& view :
           {f.projection_input, f.low_rank, f.u, f.c, f.norm_input,
            f.norm_statistics, sru->mask_in, sru->mask_cell}) {
        AddRange(view, ranges);
      }
    } else {
      const auto& qrnn = std::get<QrnnActivations>(layer.cell);
      const QrnnForwardArgs<float>& f = qrnn.args.forward;
      for (const Matrix<float>& view :
           {f.window_rows, f.u, f.c, qrnn.zoneout_mask, qrnn.dropout_mask}) {
        AddRange(view, ranges);
      }
    }
  }
  ExpectApart(ranges);
  EXPECT_GE(ranges.front().first, static_cast<const void*>(memory));
  EXPECT_LE(ranges.back().second, static_cast<const void*>(memory + a.bytes));
}

TEST(LayOut, ALargeOutputIsThereInTilesIfTheLossAloneReadsIt) {
  const auto model_of = [](int64_t size) {
    return Make(absl::StrCat(
        "input { features { size: 16 } } "
        "blocks { sru { hidden_size: 16 num_layers: 1 } } output { linear { "
        "size: ",
        size, " } } loss { kind: CROSS_ENTROPY }"));
  };
  const auto large = model_of(4096), small = model_of(64);
  const auto bytes = [](const Model& model, int64_t rows, bool open_ends) {
    return LayOut(model, {Mode::kTraining, rows, 1, open_ends}, nullptr).bytes;
  };
  // From there on the other activations alone grow with the rows: x, y, u, c,
  // the gradient of y, targets, weights and losses.
  const int64_t others = (2 + 3 + 1 + 1) * 16 + 3;
  const int64_t tile = kOutputTileRows;
  EXPECT_EQ(bytes(*large, tile + 64, false) - bytes(*large, tile, false),
            64 * others * 4);
  EXPECT_EQ(bytes(*large, tile, false) - bytes(*large, tile - 64, false),
            64 * (others + 4096) * 4);
  EXPECT_EQ(bytes(*small, tile + 64, false) - bytes(*small, tile, false),
            64 * (others + 64) * 4);
  EXPECT_GT(bytes(*large, 1000, true), 1000 * 4096 * 4);

  for (const int64_t rows : {1, 512, 1000}) {
    std::vector<std::byte> memory(bytes(*large, rows, false) + kAlignment);
    void* base = memory.data();
    size_t space = memory.size();
    std::align(kAlignment, 1, base, space);
    const Activations a = LayOut(*large, {Mode::kTraining, rows, 1}, base);
    EXPECT_FALSE(a.output);
    EXPECT_EQ(a.output_tile.rows, std::min(rows, tile));
    std::vector<std::pair<const void*, const void*>> ranges;
    for (const Matrix<float>& view :
         {a.output_tile, a.dlinear_input, a.hidden(), a.input,
          Matrix<float>(a.target_weights, rows, 1),
          Matrix<float>(a.row_losses, rows, 1)}) {
      EXPECT_TRUE(view);
      AddRange(view, ranges);
    }
    AddRange(Matrix<int32_t>(a.target_classes, rows, 1), ranges);
    ExpectApart(ranges);
    // Losses are read when the layers' scratch has been written.
    EXPECT_LT(
        a.row_losses,
        std::get<SruActivations>(a.layers[0].cell).args.channel_partials.data);
  }
}

TEST(LayOut, InferenceDoesNotGrowWithLayers) {
  const auto bytes = [](int layers, Mode mode) {
    const auto model = Make(absl::StrCat(
        "input { features { size: 64 } } blocks { sru { hidden_size: 64 "
        "num_layers: ",
        layers, " layer_norm: true } }"));
    return LayOut(*model, {mode, 1000, 4}, nullptr).bytes;
  };
  // But for the state: 4 sequences of 64 channels a layer.
  EXPECT_EQ(bytes(9, Mode::kInference) - bytes(2, Mode::kInference),
            7 * 4 * 64 * 4);
  EXPECT_GT(bytes(9, Mode::kGradients), 3 * bytes(2, Mode::kGradients));
}

TEST(LayOut, BytesOfASmallModel) {
  const auto model = Make(R"(
    input { features { size: 16 } }
    blocks { sru { hidden_size: 16 num_layers: 1 } })");
  const int64_t n = 10, b = 2;
  const int64_t offsets = 64;
  const int64_t state = b * 16 * 4;
  const int64_t rows = n * 16 * 4;
  EXPECT_EQ(LayOut(*model, {Mode::kInference, n, b}, nullptr).bytes,
            offsets + state + 2 * rows + 3 * rows);
  const PassMemory packed = {.num_rows = n, .num_sequences = b, .packed = true};
  EXPECT_EQ(LayOut(*model, packed, nullptr).bytes, offsets + state + 2 * rows);
  EXPECT_EQ(LayOut(*model, {Mode::kGradients, n, b}, nullptr).bytes,
            offsets + 2 * state +             // in and out
                2 * rows + 3 * rows + rows +  // x, y, u, c
                4 * state);                   // partial sums
  EXPECT_EQ(LayOut(*model, {Mode::kGradients, n, b, true}, nullptr).bytes -
                LayOut(*model, {Mode::kGradients, n, b}, nullptr).bytes,
            2 * state + rows);
}

TEST(LayOut, RowsLieBesideTheOnesTheyAreMadeFrom) {
  const auto model = Make(Everything());
  alignas(64) static std::byte memory[1 << 20];
  for (const int64_t n : {3, 50}) {
    const Activations a = LayOut(*model, {Mode::kTraining, n, 4, true}, memory);
    std::vector<Matrix<float>> chain = {a.output, a.dlinear_input, a.dhidden};
    for (auto layer = a.layers.rbegin(); layer != a.layers.rend(); ++layer) {
      chain.push_back(layer->dx);
      if (layer->block_input) chain.push_back(layer->dblock_input);
    }
    for (size_t i = 1; i < chain.size(); ++i) {
      ASSERT_TRUE(chain[i]);
      const Matrix<float> from = chain[i - 1], to = chain[i];
      EXPECT_TRUE(to.data >= from.data + from.rows * from.cols ||
                  from.data >= to.data + to.rows * to.cols);
    }
    EXPECT_EQ(chain.back().cols, 13);
  }
}

}  // namespace
}  // namespace recurve
