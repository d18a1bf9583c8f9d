#include "engine/model/library_import.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/model/library_export.h"
#include "engine/model/test_models.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Random parameters, zeros and negative zeros among them, that checkpoints of
// the libraries can hold: padding is 0, and so is v's bias, which they lack.
std::vector<float> RandomParameters(const Model& model) {
  std::vector<float> buffer(
      static_cast<size_t>(model.parameters().buffer_size()), 0.0f);
  std::mt19937 random(7);
  LibraryNames names = DefaultNames(model);
  names.tied_weight_repeated = false;
  for (const LibraryTensor& tensor : ModelTensors(model, names)) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    for (float& value : values) {
      const uint32_t bits = random();
      value = bits % 16 == 0   ? 0.0f
              : bits % 16 == 1 ? -0.0f
                               : static_cast<float>(bits) * 0x1p-32f - 0.5f;
    }
    FromLibrary(tensor, values.data(), buffer.data());
  }
  return buffer;
}

// The tensors of a checkpoint, to be changed by a test.
FloatTensorMap Checkpoint(const Model& model, const LibraryNames& names) {
  return ExportLibrary(model, RandomParameters(model), names);
}
FloatTensorMap Checkpoint(const Model& model) {
  return Checkpoint(model, DefaultNames(model));
}

void Rename(FloatTensorMap& tensors, const std::string& from,
            const std::string& to) {
  auto node = tensors.extract(from);
  ASSERT_FALSE(node.empty()) << from;
  node.key() = to;
  tensors.insert(std::move(node));
}

absl::StatusOr<ImportedModel> Import(const Model& model,
                                     const FloatTensorMap& tensors,
                                     const ImportOptions& options = {}) {
  return ImportLibrary(model, Views(tensors), options);
}

void ExpectRefused(const absl::StatusOr<ImportedModel>& imported,
                   absl::string_view part) {
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(imported.status().message(), part))
      << imported.status();
}

TEST(LibraryImportTest, EveryLayoutComesBackBitForBit) {
  for (const std::string& config : ModelsOfEveryLayout()) {
    SCOPED_TRACE(config);
    const auto model = MakeModel(config);
    const std::vector<float> parameters = RandomParameters(*model);
    const FloatTensorMap tensors =
        ExportLibrary(*model, parameters, DefaultNames(*model));
    const auto imported = Import(*model, tensors);
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_TRUE(SameBits(imported->parameters, parameters));
    const FloatTensorMap again =
        ExportLibrary(*model, imported->parameters, imported->names);
    ASSERT_EQ(again.size(), tensors.size());
    for (const auto& [key, tensor] : tensors) {
      ASSERT_TRUE(again.contains(key)) << key;
      EXPECT_EQ(again.at(key).shape, tensor.shape);
      EXPECT_TRUE(SameBits(again.at(key).values, tensor.values)) << key;
    }
  }
}

TEST(LibraryImportTest, EveryStyleAndPrefixIsFound) {
  for (const KeyStyle style :
       {KeyStyle::kQrnn, KeyStyle::kQrnnWeightDrop, KeyStyle::kLayers,
        KeyStyle::kLayersWeightDrop}) {
    for (const char* prefix : {"", "rnns.", "module.encoder.body."}) {
      const auto model = MakeModel(
          "input { token_embedding { vocabulary_size: 7 embedding_size: 3 } } "
          "blocks { qrnn { hidden_size: 4 num_layers: 2 window: 2 } } "
          "output { linear { size: 5 } }");
      LibraryNames names;
      names.embedding = "module.encoder.";
      names.blocks = {{prefix, style}};
      names.output = "module.decoder.";
      const auto imported = Import(*model, Checkpoint(*model, names));
      ASSERT_TRUE(imported.ok()) << imported.status();
      EXPECT_EQ(imported->names.embedding, names.embedding);
      EXPECT_EQ(imported->names.output, names.output);
      EXPECT_EQ(imported->names.blocks[0].prefix, prefix);
      EXPECT_EQ(imported->names.blocks[0].style, style);
      EXPECT_TRUE(SameBits(imported->parameters, RandomParameters(*model)));
    }
  }
}

TEST(LibraryImportTest, KeysOfEitherSruVersionAreTaken) {
  const auto model = MakeModel(
      "input { features { size: 6 } } blocks { sru { hidden_size: 5 } }");
  LibraryNames names = DefaultNames(*model);
  names.blocks[0].style = KeyStyle::kSru3Dev;
  const auto imported = Import(*model, Checkpoint(*model, names));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->names.blocks[0].style, KeyStyle::kSru3Dev);
  EXPECT_TRUE(SameBits(imported->parameters, RandomParameters(*model)));
}

TEST(LibraryImportTest, OtherFloatTypesAreConverted) {
  const auto model = MakeModel(
      "input { features { size: 2 } } blocks { qrnn { hidden_size: 1 } }");
  const std::vector<uint16_t> weight = {0x3c00, 0x4000, 0x4200,
                                        0x4400, 0x4500, 0x4600};
  const std::vector<double> bias = {0.5, 0.25, 0.1};
  const TensorMap tensors = {
      {"layers.0.linear.weight",
       {DType::kF16,
        {3, 2},
        {reinterpret_cast<const uint8_t*>(weight.data()), 12}}},
      {"layers.0.linear.bias",
       {DType::kF64,
        {3},
        {reinterpret_cast<const uint8_t*>(bias.data()), 24}}}};
  const auto imported = ImportLibrary(*model, tensors, {});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const FloatTensorMap out =
      ExportLibrary(*model, imported->parameters, imported->names);
  EXPECT_EQ(out.at("layers.0.linear.weight").values,
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(out.at("layers.0.linear.bias").values,
            (std::vector<float>{0.5f, 0.25f, 0.1f}));
}

// --- Several blocks ---

constexpr char kTwoBlocks[] =
    "input { features { size: 4 } } "
    "blocks { name: 'lower' sru { hidden_size: 4 num_layers: 1 } } "
    "blocks { name: 'upper' sru { hidden_size: 4 num_layers: 1 } }";

TEST(LibraryImportTest, SeveralBlocksAreFoundByName) {
  const auto model = MakeModel(kTwoBlocks);
  LibraryNames names = DefaultNames(*model);
  names.blocks[0].prefix = "module.lower.";
  names.blocks[1].prefix = "module.upper.";
  const auto imported = Import(*model, Checkpoint(*model, names));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->names.blocks[1].prefix, "module.upper.");
  EXPECT_TRUE(SameBits(imported->parameters, RandomParameters(*model)));
}

TEST(LibraryImportTest, TheLastBlockIsTheOneThatIsLeft) {
  const auto model = MakeModel(kTwoBlocks);
  LibraryNames names = DefaultNames(*model);
  names.blocks[0].prefix = "other.";
  const auto imported = Import(*model, Checkpoint(*model, names));
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->names.blocks[0].prefix, "other.");
}

TEST(LibraryImportTest, BlocksThatCannotBeToldApartAreRefused) {
  const auto model = MakeModel(kTwoBlocks);
  LibraryNames names = DefaultNames(*model);
  names.blocks[0].prefix = "a.";
  names.blocks[1].prefix = "b.";
  ExpectRefused(Import(*model, Checkpoint(*model, names)),
                "block `lower` is not found by its name in the checkpoint; "
                "modules that look like sru blocks: `a.`, `b.`");
  names.blocks[0].prefix = "a.lower.";
  names.blocks[1].prefix = "b.lower.";
  ExpectRefused(Import(*model, Checkpoint(*model, names)),
                "several modules of the checkpoint could be block `lower`");
}

// --- Embedding and output ---

std::string Ends(int vocabulary, int embedding, const std::string& linear) {
  return absl::StrCat("input { token_embedding { vocabulary_size: ", vocabulary,
                      " embedding_size: ", embedding,
                      " } } blocks { sru { hidden_size: 4 num_layers: 1 } } "
                      "output { linear { ",
                      linear, " } }");
}

// Imports a checkpoint whose embedding and output have these names.
absl::StatusOr<ImportedModel> ImportEnds(const Model& model,
                                         const std::string& embedding,
                                         const std::string& output,
                                         const ImportOptions& options = {}) {
  LibraryNames names = DefaultNames(model);
  names.embedding = embedding;
  names.output = output;
  const auto imported = Import(model, Checkpoint(model, names), options);
  if (imported.ok()) {
    EXPECT_EQ(imported->names.embedding, embedding);
    EXPECT_EQ(imported->names.output, output);
    EXPECT_TRUE(SameBits(imported->parameters, RandomParameters(model)));
  }
  return imported;
}

TEST(LibraryImportTest, ShapesTellEmbeddingFromOutput) {
  const auto model = MakeModel(Ends(7, 3, "size: 7 bias: false"));
  EXPECT_TRUE(ImportEnds(*model, "x.", "y.").ok());
  EXPECT_TRUE(ImportEnds(*model, "y.", "x.").ok());
}

TEST(LibraryImportTest, ABiasTellsTheOutput) {
  const auto model = MakeModel(Ends(7, 4, "size: 7"));
  EXPECT_TRUE(ImportEnds(*model, "x.", "y.").ok());
  EXPECT_TRUE(ImportEnds(*model, "decoder.", "encoder.").ok());
}

TEST(LibraryImportTest, WhereShapesLeaveAChoiceNamesTell) {
  const auto model = MakeModel(Ends(7, 4, "size: 7 bias: false"));
  for (const auto& [embedding, output] :
       std::vector<std::pair<std::string, std::string>>{
           {"encoder.", "decoder."},
           {"embedding_layer.", "output_layer."},
           {"wte.", "lm_head."},
           {"x.", "classifier."},
           {"model.decoder.embed_tokens.", "model.decoder.out."},
           {"zz.Emb.", "aa.fc."}}) {
    EXPECT_TRUE(ImportEnds(*model, embedding, output).ok())
        << embedding << output;
  }
}

TEST(LibraryImportTest, WhereNamesDoNotTellTheCallerMust) {
  const auto model = MakeModel(Ends(7, 4, "size: 7 bias: false"));
  ExpectRefused(ImportEnds(*model, "x.", "y."),
                "`x.weight`, `y.weight`; give embedding_key or output_key");
  EXPECT_TRUE(
      ImportEnds(*model, "x.", "y.", {.embedding_key = "x", .output_key = ""})
          .ok());
  EXPECT_TRUE(
      ImportEnds(*model, "y.", "x.", {.embedding_key = "", .output_key = "x."})
          .ok());
  ExpectRefused(
      ImportEnds(*model, "x.", "y.", {.embedding_key = "", .output_key = "z"}),
      "output_key: the checkpoint has no tensor `z.weight`");
}

TEST(LibraryImportTest, AnExportTellsItself) {
  const auto model = MakeModel(Ends(7, 4, "size: 7 bias: false"));
  LibraryNames names = DefaultNames(*model);
  names.embedding = "x.";
  names.output = "deep.y.";
  const ImportOptions options = OptionsFromMetadata(ExportMetadata(names));
  EXPECT_TRUE(ImportEnds(*model, "x.", "deep.y.", options).ok());
  EXPECT_EQ(OptionsFromMetadata({}).embedding_key, "");
}

// --- Tied outputs ---

TEST(LibraryImportTest, ATiedTableMayStandOnceOrTwice) {
  for (const char* linear :
       {"size: 7 tied: true", "size: 7 tied: true bias: false"}) {
    const auto model = MakeModel(Ends(7, 4, linear));
    FloatTensorMap tensors = Checkpoint(*model);
    ASSERT_TRUE(tensors.contains("output.weight"));
    const auto twice = Import(*model, tensors);
    ASSERT_TRUE(twice.ok()) << twice.status();
    EXPECT_TRUE(twice->names.tied_weight_repeated);
    tensors.erase("output.weight");
    const auto once = Import(*model, tensors);
    ASSERT_TRUE(once.ok()) << once.status();
    EXPECT_FALSE(once->names.tied_weight_repeated);
    EXPECT_TRUE(SameBits(once->parameters, twice->parameters));
    EXPECT_EQ(ExportLibrary(*model, once->parameters, once->names).size(),
              tensors.size());
  }
}

TEST(LibraryImportTest, TiedTablesThatDifferAreRefused) {
  const auto model = MakeModel(Ends(7, 4, "size: 7 tied: true"));
  FloatTensorMap tensors = Checkpoint(*model);
  tensors["output.weight"].values[9] = 2.5f;
  ExpectRefused(Import(*model, tensors),
                "tensor `output.weight`: element 9 is 2.5, but");
}

// --- What does not fit ---

constexpr char kLanguageModel[] =
    "input { token_embedding { vocabulary_size: 7 embedding_size: 3 } } "
    "blocks { sru { hidden_size: 4 } } output { linear { size: 7 } }";

TEST(LibraryImportTest, EveryMissingSurplusAndMisshapenKeyIsNamed) {
  const auto model = MakeModel(kLanguageModel);
  FloatTensorMap tensors = Checkpoint(*model);
  tensors.erase("rnn.rnn_lst.0.bias");
  tensors["rnn.rnn_lst.2.weight"] = {{1}, {0}};
  tensors["rnn.rnn_lst.1.weight"] = {{2, 12}, std::vector<float>(24)};
  tensors["step"] = {{}, {0}};
  const absl::Status status = Import(*model, tensors).status();
  EXPECT_EQ(status.message(),
            "the checkpoint does not fit the model: `rnn.rnn_lst.0.bias` [8] "
            "is missing; `rnn.rnn_lst.1.weight` has shape [2, 12], expected "
            "[4, 12]; `rnn.rnn_lst.2.weight` [1] is not part of the model; "
            "`step` [] is not part of the model");
}

TEST(LibraryImportTest, LongListsAreCut) {
  const auto model = MakeModel(kLanguageModel);
  FloatTensorMap tensors = Checkpoint(*model);
  for (int i = 0; i < 50; ++i) tensors[absl::StrCat("x", i)] = {{}, {0}};
  ExpectRefused(Import(*model, tensors), "; and 30 more");
}

TEST(LibraryImportTest, AMisshapenEndIsNamedByWhatItWouldBe) {
  const auto model = MakeModel(kLanguageModel);
  FloatTensorMap tensors = Checkpoint(*model);
  Rename(tensors, "embedding.weight", "encoder.weight");
  tensors["encoder.weight"] = {{6, 3}, std::vector<float>(18)};
  ExpectRefused(Import(*model, tensors),
                "`encoder.weight` has shape [6, 3], expected [7, 3]");

  tensors = Checkpoint(*model);
  Rename(tensors, "output.weight", "z.weight");
  Rename(tensors, "output.bias", "z.bias");
  tensors["z.weight"] = {{7, 5}, std::vector<float>(35)};
  ExpectRefused(Import(*model, tensors),
                "`z.weight` has shape [7, 5], expected [7, 4]");
}

TEST(LibraryImportTest, AMissingEndIsNamed) {
  const auto model = MakeModel(kLanguageModel);
  FloatTensorMap tensors = Checkpoint(*model);
  tensors.erase("embedding.weight");
  ExpectRefused(Import(*model, tensors),
                "`embedding.weight` [7, 3] is missing");
  tensors = Checkpoint(*model);
  tensors.erase("output.bias");
  ExpectRefused(Import(*model, tensors), "`output.bias` [7] is missing");
  ExpectRefused(Import(*model, {}),
                "`rnn.rnn_lst.0.weight` [3, 16] is missing");
}

TEST(LibraryImportTest, ASecondOutputIsSurplus) {
  const auto model = MakeModel(kLanguageModel);
  FloatTensorMap tensors = Checkpoint(*model);
  tensors["aux.weight"] = {{2, 4}, std::vector<float>(8)};
  ExpectRefused(Import(*model, tensors),
                "`aux.weight` [2, 4] is not part of the model");
}

TEST(LibraryImportTest, WeightsThatAreNotFiniteAreNamed) {
  const auto model = MakeModel(kLanguageModel);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    FloatTensorMap tensors = Checkpoint(*model);
    tensors["rnn.rnn_lst.1.weight_c"].values[3] = bad;
    ExpectRefused(
        Import(*model, tensors),
        absl::StrCat("tensor `rnn.rnn_lst.1.weight_c`: element 3 is ", bad));
  }
}

TEST(LibraryImportTest, IntegersAreNoWeights) {
  const auto model = MakeModel(kLanguageModel);
  const FloatTensorMap tensors = Checkpoint(*model);
  TensorMap views = Views(tensors);
  views["rnn.rnn_lst.0.bias"].dtype = DType::kI32;
  ExpectRefused(ImportLibrary(*model, views, {}),
                "tensor `rnn.rnn_lst.0.bias` is I32; expected F16");
}

TEST(LibraryImportTest, WhatCannotBeRunIsRecognised) {
  const auto model = MakeModel(kLanguageModel);
  const auto with = [&](const std::string& key) {
    FloatTensorMap tensors = Checkpoint(*model);
    tensors[key] = {{1}, {0}};
    return Import(*model, tensors);
  };
  ExpectRefused(with("rnn.rnn_lst.0.transform_module.linear1.weight"),
                "belongs to an SRU++ model");
  ExpectRefused(with("rnn.rnn_lst.0.transform_module.alpha"), "SRU++");
  ExpectRefused(with("rnn.ln_lst.0.a"), "the layer norm of sru up to 2.1.7");
  ExpectRefused(with("rnn.rnn_lst.0.gain"), "the weight norm of sru up to");
}

// --- Real checkpoints ---

class CheckpointTest : public testing::TestWithParam<std::string> {};

TEST_P(CheckpointTest, ImportsAndExportsBitForBit) {
  const std::string base = "tests/testdata/checkpoints/" + GetParam();
  const auto model = MakeModel(*ReadFile(base + ".textproto", 10000));
  const auto file = Safetensors::Open(base + ".safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto imported = ImportLibrary(*model, file->tensors(), {});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const FloatTensorMap out =
      ExportLibrary(*model, imported->parameters, imported->names);
  ASSERT_EQ(out.size(), file->tensors().size());
  for (const auto& [key, tensor] : file->tensors()) {
    ASSERT_TRUE(out.contains(key)) << key;
    EXPECT_EQ(out.at(key).shape, tensor.shape) << key;
    EXPECT_TRUE(SameBits(out.at(key).values, *ToFloats(key, tensor))) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Libraries, CheckpointTest,
                         testing::Values("sru_charlm", "qrnn_charlm"));

}  // namespace
}  // namespace recurve
