#include "engine/model/library_keys.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/model/test_models.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

// Indices of our buffer as the library's tensors would hold them.
std::map<std::string, std::vector<float>> LibraryIndices(
    const Model& model, const LibraryNames& names) {
  std::vector<float> buffer(
      static_cast<size_t>(model.parameters().buffer_size()));
  for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(i);
  std::map<std::string, std::vector<float>> tensors;
  for (const LibraryTensor& tensor : ModelTensors(model, names)) {
    std::vector<float>& values = tensors[tensor.key];
    values.assign(static_cast<size_t>(tensor.count()), -1.0f);
    ToLibrary(tensor, buffer.data(), values.data());
  }
  return tensors;
}

// The index in the buffer of one element of a parameter.
float At(const Model& model, absl::string_view name, int64_t row, int64_t col) {
  const Parameter& parameter = *model.parameters().Find(name);
  return static_cast<float>(parameter.offset + row * parameter.cols + col);
}

TEST(LibraryKeysTest, Sru2InterleavesGatesPerUnit) {
  const auto model = MakeModel(
      "input { features { size: 3 } } "
      "blocks { sru { hidden_size: 5 num_layers: 1 bidirectional: true } }");
  const auto tensors = LibraryIndices(*model, DefaultNames(*model));
  const std::vector<float>& weight = tensors.at("rnn.rnn_lst.0.weight");
  const int64_t h = 5, k = 4;
  ASSERT_EQ(weight.size(), 3u * 2 * h * k);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t d = 0; d < 2; ++d) {
      for (int64_t j = 0; j < h; ++j) {
        for (int64_t m = 0; m < k; ++m) {
          EXPECT_EQ(weight[i * 2 * h * k + (d * h + j) * k + m],
                    At(*model, "blocks.0.layers.0.projection", i,
                       (d * k + m) * h + j));
        }
      }
    }
  }
  // weight_c and bias are blocks in the library, too.
  const std::vector<float>& v = tensors.at("rnn.rnn_lst.0.weight_c");
  for (int64_t c = 0; c < 2 * 2 * h; ++c) {
    EXPECT_EQ(v[c], At(*model, "blocks.0.layers.0.weight_c", 0, c));
  }
}

TEST(LibraryKeysTest, Sru3DevIsTheTransposeOfSru2) {
  const std::string config =
      "input { features { size: 6 } } blocks { sru { library: SRU_3_DEV "
      "hidden_size: 5 bidirectional: true projection_size: 4 } }";
  const auto model = MakeModel(config);
  LibraryNames names = DefaultNames(*model);
  const auto dev = LibraryIndices(*model, names);
  names.blocks[0].style = KeyStyle::kSru2;
  const auto two = LibraryIndices(*model, names);
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"rnn.rnn_lst.1.transform_module.0.weight", "rnn.rnn_lst.1.weight_proj"},
      {"rnn.rnn_lst.1.transform_module.1.weight", "rnn.rnn_lst.1.weight"}};
  const int64_t rows[] = {10, 4};  // of the sru 2 tensors
  for (int t = 0; t < 2; ++t) {
    const std::vector<float>& a = dev.at(pairs[t].first);
    const std::vector<float>& b = two.at(pairs[t].second);
    ASSERT_EQ(a.size(), b.size());
    const int64_t cols = static_cast<int64_t>(b.size()) / rows[t];
    for (int64_t r = 0; r < rows[t]; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        EXPECT_EQ(a[c * rows[t] + r], b[r * cols + c]);
      }
    }
  }
}

TEST(LibraryKeysTest, StepCoefficientsAreInterleaved) {
  const auto model = MakeModel(
      "input { features { size: 5 } } blocks { sru { hidden_size: 5 "
      "num_layers: 1 custom_m: CUSTOM_TRANSFORM_UV } }");
  const auto tensors = LibraryIndices(*model, DefaultNames(*model));
  const std::vector<float>& u = tensors.at("rnn.rnn_lst.0.custom_m.u.weight");
  const std::vector<float>& v = tensors.at("rnn.rnn_lst.0.custom_m.v.weight");
  const std::vector<float>& c = tensors.at("rnn.rnn_lst.0.weight_c");
  ASSERT_EQ(u.size(), 15u * 5);
  ASSERT_EQ(v.size(), 10u * 5);
  for (int64_t j = 0; j < 5; ++j) {
    for (int64_t g = 0; g < 2; ++g) {
      EXPECT_EQ(c[j * 2 + g], At(*model, "blocks.0.layers.0.weight_c", g, j));
      for (int64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(
            v[(j * 2 + g) * 5 + i],
            At(*model, "blocks.0.layers.0.projection", i, (3 + g) * 5 + j));
      }
    }
  }
  EXPECT_EQ(u[(4 * 3 + 2) * 5 + 1],
            At(*model, "blocks.0.layers.0.projection", 1, 2 * 5 + 4));
}

TEST(LibraryKeysTest, QrnnKeepsItsGateBlocksTransposed) {
  const auto model = MakeModel(
      "input { features { size: 4 } } "
      "blocks { qrnn { hidden_size: 3 window: 2 bidirectional: true } }");
  const auto tensors = LibraryIndices(*model, DefaultNames(*model));
  for (int64_t d = 0; d < 2; ++d) {
    const std::string suffix = d == 0 ? "" : "_reverse";
    const auto& weight = tensors.at("rnn.layers.0.linear.weight" + suffix);
    const auto& bias = tensors.at("rnn.layers.0.linear.bias" + suffix);
    ASSERT_EQ(weight.size(), 9u * 8);
    for (int64_t row = 0; row < 9; ++row) {
      const int64_t ours = d * 9 + row;
      EXPECT_EQ(bias[row], At(*model, "blocks.0.layers.0.bias", 0, ours));
      for (int64_t col = 0; col < 8; ++col) {
        EXPECT_EQ(weight[row * 8 + col],
                  At(*model, "blocks.0.layers.0.projection", col, ours));
      }
    }
  }
}

TEST(LibraryKeysTest, StylesOfQrnnDifferInNamesAlone) {
  const auto model = MakeModel(
      "input { features { size: 4 } } blocks { qrnn { hidden_size: 3 } }");
  const auto keys = [&](KeyStyle style) {
    std::vector<std::string> keys;
    for (const LibraryTensor& tensor : BlockTensors(*model, 0, {"p.", style})) {
      keys.push_back(tensor.key);
    }
    return keys;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys(KeyStyle::kQrnn),
            (Keys{"p.layers.0.linear.weight", "p.layers.0.linear.bias"}));
  EXPECT_EQ(keys(KeyStyle::kQrnnWeightDrop),
            (Keys{"p.layers.0.linear.module.weight_raw",
                  "p.layers.0.linear.module.bias"}));
  EXPECT_EQ(keys(KeyStyle::kLayers),
            (Keys{"p.0.linear.weight", "p.0.linear.bias"}));
  EXPECT_EQ(keys(KeyStyle::kLayersWeightDrop),
            (Keys{"p.0.linear.module.weight_raw", "p.0.linear.module.bias"}));
}

// Biases of v's gate groups, which the library does not have.
int64_t StepBiases(const Model& model) {
  int64_t count = 0;
  for (const Layer& layer : model.layers()) {
    const auto* sru = std::get_if<SruLayer>(&layer.cell);
    if (sru != nullptr && sru->shape.has_step_coefficients) {
      count += 2 * sru->shape.channels();
    }
  }
  return count;
}

TEST(LibraryKeysTest, EveryElementOfEveryLayoutHasOnePlaceOnEachSide) {
  for (const std::string& config : ModelsOfEveryLayout()) {
    SCOPED_TRACE(config);
    const auto model = MakeModel(config);
    LibraryNames names = DefaultNames(*model);
    names.tied_weight_repeated = false;
    std::set<float> seen;
    size_t total = 0;
    for (const auto& [key, values] : LibraryIndices(*model, names)) {
      total += values.size();
      seen.insert(values.begin(), values.end());
    }
    EXPECT_EQ(seen.count(-1.0f), 0u);  // an element that nothing reached
    EXPECT_EQ(seen.size(), total);     // an element taken twice
    EXPECT_EQ(static_cast<int64_t>(total),
              model->parameters().parameter_count() - StepBiases(*model));
  }
}

}  // namespace
}  // namespace recurve
