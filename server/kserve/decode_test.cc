#include "server/kserve/decode.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/kserve/decode_test_util.h"
#include "server/kserve/shared_memory_test_util.h"

namespace recurve::server::kserve {
namespace {

using inference::ModelInferRequest;
using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;
using Floats = std::vector<float>;

absl::StatusOr<DecodedRequest> DecodeWith(const ModelInferRequest& request,
                                          const Model& model,
                                          const SharedMemoryRegions& regions,
                                          const TensorLimits& limits) {
  const auto parameters = ReadParameters(request.parameters());
  if (!parameters.ok()) return parameters.status();
  return Decode(request, *parameters, model, regions, limits);
}

constexpr TensorLimits kLimits = {.max_input_bytes = 1 << 20,
                                  .max_output_bytes = 1 << 20};

absl::StatusOr<DecodedRequest> Decoded(const ModelInferRequest& request,
                                       const Model& model) {
  return DecodeWith(request, model, SharedMemoryRegions(), kLimits);
}

// InvalidArgument that speaks of `word`.
void ExpectInvalid(const ModelInferRequest& request, const Model& model,
                   const std::string& word) {
  const absl::Status status = Decoded(request, model).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find(word), absl::string_view::npos)
      << status << "\nhas no " << word;
}

ModelInferRequest TokenRequest() {
  ModelInferRequest request;
  AddInput(request, "tokens", "INT32", {2, 3},
           RawBytes<int32_t>({0, 1, 2, 3, 4, 0}));
  return request;
}

ModelInferRequest FeatureRequest() {
  ModelInferRequest request;
  AddInput(request, "features", "FP32", {1, 2, 2},
           RawBytes<float>({1, 2, 3, 4}));
  return request;
}

// --- Inputs ---

TEST(DecodeTest, TokensOfBothWidths) {
  const auto narrow = Decoded(TokenRequest(), *TokenModel());
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ(narrow->batch.tokens, (Ints{0, 1, 2, 3, 4, 0}));
  EXPECT_EQ(narrow->batch.cu_seqlens, (Longs{0, 3, 6}));
  EXPECT_EQ(narrow->layout.steps, 3);

  ModelInferRequest request;
  AddInput(request, "tokens", "INT64", {1, 2}, RawBytes<int64_t>({4, 2}));
  const auto wide = Decoded(request, *TokenModel());
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->batch.tokens, (Ints{4, 2}));
}

TEST(DecodeTest, LengthsLeaveThePaddingOut) {
  for (const Longs& shape : {Longs{2}, Longs{2, 1}}) {
    ModelInferRequest request = TokenRequest();
    // Padding may be anything.
    *request.mutable_raw_input_contents(0) =
        RawBytes<int32_t>({0, -7, 99, 3, 4, 1000});
    AddInput(request, "lengths", "INT64", shape, RawBytes<int64_t>({1, 2}));
    const auto decoded = Decoded(request, *TokenModel());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->batch.tokens, (Ints{0, 3, 4}));
    EXPECT_EQ(decoded->batch.cu_seqlens, (Longs{0, 1, 3}));
    EXPECT_EQ(decoded->layout.steps, 3);
  }
}

TEST(DecodeTest, FeaturesWithLengths) {
  ModelInferRequest request;
  AddInput(request, "lengths", "INT32", {2}, RawBytes<int32_t>({2, 1}));
  AddInput(request, "features", "FP32", {2, 2, 2},
           RawBytes<float>({1, 2, 3, 4, 5, 6, NAN, NAN}));
  const auto decoded = Decoded(request, *FeatureModel());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->batch.features, (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decoded->batch.cu_seqlens, (Longs{0, 2, 3}));
}

TEST(DecodeTest, FeaturesOfSixteenBits) {
  ModelInferRequest half, brain;
  AddInput(half, "features", "FP16", {1, 1, 2},
           RawBytes<uint16_t>({0x3c00, 0xc100}));  // 1, -2.5
  AddInput(brain, "features", "BF16", {1, 1, 2},
           RawBytes<uint16_t>({0x3f80, 0xc020}));
  for (const auto& request : {half, brain}) {
    const auto decoded = Decoded(request, *FeatureModel());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->batch.features, (Floats{1, -2.5}));
  }
}

TEST(DecodeTest, TypedContents) {
  ModelInferRequest request;
  auto& tokens = *request.add_inputs();
  tokens.set_name("tokens");
  tokens.set_datatype("INT64");
  tokens.add_shape(1);
  tokens.add_shape(2);
  tokens.mutable_contents()->add_int64_contents(3);
  tokens.mutable_contents()->add_int64_contents(1);
  auto& lengths = *request.add_inputs();
  lengths.set_name("lengths");
  lengths.set_datatype("INT32");
  lengths.add_shape(1);
  lengths.mutable_contents()->add_int_contents(1);
  const auto decoded = Decoded(request, *TokenModel());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->batch.tokens, (Ints{3}));

  ModelInferRequest features;
  auto& input = *features.add_inputs();
  input.set_name("features");
  input.set_datatype("FP32");
  for (const int size : {1, 1, 2}) input.add_shape(size);
  for (const float number : {0.5f, -1.f}) {
    input.mutable_contents()->add_fp32_contents(number);
  }
  EXPECT_EQ(Decoded(features, *FeatureModel())->batch.features,
            (Floats{0.5, -1}));

  // These have no list of their own.
  input.set_datatype("FP16");
  ExpectInvalid(features, *FeatureModel(), "raw_input_contents");
  // Fewer than the shape says.
  tokens.mutable_contents()->mutable_int64_contents()->RemoveLast();
  ExpectInvalid(request, *TokenModel(), "8 bytes");
}

TEST(DecodeTest, RawAndTypedContentsDoNotMix) {
  ModelInferRequest request = TokenRequest();
  auto& lengths = *request.add_inputs();
  lengths.set_name("lengths");
  lengths.set_datatype("INT32");
  lengths.add_shape(2);
  lengths.mutable_contents()->add_int_contents(1);
  lengths.mutable_contents()->add_int_contents(1);
  ExpectInvalid(request, *TokenModel(), "lengths");
}

TEST(DecodeTest, TypedContentsAreOneList) {
  ModelInferRequest request;
  auto& tokens = *request.add_inputs();
  tokens.set_name("tokens");
  tokens.set_datatype("INT32");
  tokens.add_shape(1);
  tokens.add_shape(1);
  tokens.mutable_contents()->add_int_contents(3);
  ASSERT_TRUE(Decoded(request, *TokenModel()).ok());
  tokens.mutable_contents()->add_int64_contents(1);
  ExpectInvalid(request, *TokenModel(), "int_contents and int64_contents");
}

TEST(DecodeTest, AnErrorSaysWhatTheModelTakes) {
  const auto token_model = TokenModel();
  const std::string inputs =
      "tokens INT32 or INT64 [B, T], lengths INT32 or INT64 [B, 1] (may be "
      "left out)";
  ModelInferRequest request;
  ExpectInvalid(request, *token_model, inputs);
  ExpectInvalid(FeatureRequest(), *token_model, inputs);
  ExpectInvalid(TokenRequest(), *FeatureModel(),
                "features FP32, FP16 or BF16 [B, T, 2]");
  request = TokenRequest();
  request.mutable_inputs(0)->set_name("input_ids");
  ExpectInvalid(request, *token_model, "`input_ids`");
}

TEST(DecodeTest, ShapesThatAModelDoesNotTake) {
  const auto model = TokenModel();
  for (const Longs& shape : {Longs{}, Longs{6}, Longs{2, 3, 1}, Longs{0, 3},
                             Longs{2, 0}, Longs{-2, -3}, Longs{2, 4},
                             Longs{1, std::numeric_limits<int64_t>::max()},
                             Longs{int64_t{1} << 32, int64_t{1} << 32}}) {
    ModelInferRequest request = TokenRequest();
    request.mutable_inputs(0)->clear_shape();
    request.mutable_inputs(0)->mutable_shape()->Add(shape.begin(), shape.end());
    ExpectInvalid(request, *model, "tokens");
  }
  ModelInferRequest request = FeatureRequest();
  request.mutable_inputs(0)->clear_shape();
  for (const int size : {1, 1, 4}) request.mutable_inputs(0)->add_shape(size);
  ExpectInvalid(request, *FeatureModel(), "[1, 1, 4]");
}

TEST(DecodeTest, DatatypesThatAModelDoesNotTake) {
  ModelInferRequest request = TokenRequest();
  for (const char* const datatype : {"FP32", "FP64", "BYTES", "", "int32"}) {
    request.mutable_inputs(0)->set_datatype(datatype);
    ExpectInvalid(request, *TokenModel(), "INT32");
  }
  request = FeatureRequest();
  request.mutable_inputs(0)->set_datatype("INT32");
  ExpectInvalid(request, *FeatureModel(), "INT32");
}

TEST(DecodeTest, ContentsThatDoNotFit) {
  ModelInferRequest request = TokenRequest();
  request.mutable_raw_input_contents(0)->pop_back();
  ExpectInvalid(request, *TokenModel(), "23 bytes");
  request = TokenRequest();
  request.add_raw_input_contents("");
  ExpectInvalid(request, *TokenModel(), "raw_input_contents");
  request = TokenRequest();
  *request.add_inputs() = request.inputs(0);
  request.mutable_inputs(1)->set_name("lengths");
  ExpectInvalid(request, *TokenModel(), "lengths");  // no contents for it
  request.mutable_inputs(1)->set_name("tokens");
  request.add_raw_input_contents(request.raw_input_contents(0));
  ExpectInvalid(request, *TokenModel(), "twice");
}

TEST(DecodeTest, TokensAndFeaturesAreChecked) {
  ModelInferRequest request = TokenRequest();
  *request.mutable_raw_input_contents(0) =
      RawBytes<int32_t>({0, 1, 2, 3, 5, 0});
  ExpectInvalid(request, *TokenModel(), "sequence 1, step 1");
  ModelInferRequest wide;
  // Not 2^32 + 1 taken for 1.
  AddInput(wide, "tokens", "INT64", {1, 2},
           RawBytes<int64_t>({1, (int64_t{1} << 32) + 1}));
  ExpectInvalid(wide, *TokenModel(), "4294967297");
  request = FeatureRequest();
  *request.mutable_raw_input_contents(0) = RawBytes<float>({1, 2, INFINITY, 4});
  ExpectInvalid(request, *FeatureModel(), "step 1");
}

TEST(DecodeTest, LengthsAreChecked) {
  const struct {
    Longs shape;
    Longs lengths;
    const char* word;
  } bad[] = {{{2}, {1, 0}, "sequence 1"}, {{2}, {-1, 1}, "sequence 0"},
             {{2}, {1, 4}, "sequence 1"}, {{3}, {1, 1, 1}, "[3]"},
             {{1, 2}, {1, 1}, "[1, 2]"},  {{}, {1}, "[]"}};
  for (const auto& [shape, lengths, word] : bad) {
    ModelInferRequest request = TokenRequest();
    AddInput(request, "lengths", "INT64", shape, RawBytes(lengths));
    ExpectInvalid(request, *TokenModel(), word);
  }
}

// --- Outputs ---

std::vector<std::string> NamesOf(const DecodedRequest& request) {
  std::vector<std::string> names;
  for (const auto& output : request.outputs) {
    names.push_back(output.output.tensor.name);
  }
  return names;
}

TEST(DecodeTest, WithoutNamesTheOutputsOfTheMetadata) {
  using Names = std::vector<std::string>;
  ModelInferRequest request = TokenRequest();
  EXPECT_EQ(NamesOf(*Decoded(request, *TokenModel())),
            (Names{"logits", "probabilities", "classes"}));
  (*request.mutable_parameters())["top_k"].set_int64_param(2);
  const auto decoded = Decoded(request, *TokenModel());
  EXPECT_EQ(NamesOf(*decoded), (Names{"logits", "probabilities", "classes",
                                      "top_classes", "top_probabilities"}));
  EXPECT_EQ(decoded->selection.top_k, 2);
  const auto regression = MakeModel(R"pb(
    input { features { size: 2 } }
    blocks { qrnn { hidden_size: 4 } }
    output { linear { size: 3 } }
    loss { kind: MEAN_SQUARED_ERROR }
  )pb");
  EXPECT_EQ(NamesOf(*Decoded(FeatureRequest(), *regression)), Names{"logits"});
}

TEST(DecodeTest, OnlyWhatIsNamedIsComputed) {
  ModelInferRequest request = TokenRequest();
  request.add_outputs()->set_name("classes");
  request.add_outputs()->set_name("hidden");
  const auto decoded = Decoded(request, *TokenModel());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FALSE(decoded->selection.logits);
  EXPECT_FALSE(decoded->selection.probabilities);
  EXPECT_TRUE(decoded->selection.classes);
  EXPECT_TRUE(decoded->selection.hidden);
}

TEST(DecodeTest, OutputsThatCannotBe) {
  const auto with = [](auto edit) {
    ModelInferRequest request = TokenRequest();
    edit(request, *request.add_outputs());
    return request;
  };
  const auto model = TokenModel();
  ExpectInvalid(with([](auto&, auto& o) { o.set_name("scores"); }), *model,
                "logits, probabilities, classes");
  ExpectInvalid(with([](auto&, auto& o) { o.set_name("top_classes"); }), *model,
                "top_k");
  ExpectInvalid(with([](auto& request, auto& o) {
                  o.set_name("top_classes");
                  (*request.mutable_parameters())["top_k"].set_int64_param(6);
                }),
                *model, "1 to 5");
  ExpectInvalid(with([](auto& request, auto& o) {
                  o.set_name("logits");
                  request.add_outputs()->set_name("logits");
                }),
                *model, "twice");
  ExpectInvalid(
      with([](auto&, auto& o) {
        o.set_name("logits");
        (*o.mutable_parameters())["classification"].set_int64_param(6);
      }),
      *model, "1 to 5");
  ExpectInvalid(
      with([](auto&, auto& o) {
        o.set_name("hidden");
        (*o.mutable_parameters())["classification"].set_int64_param(1);
      }),
      *model, "classification");
}

TEST(DecodeTest, OutputsHaveALimitWithTheirPadding) {
  ModelInferRequest request;
  // A short sequence beside a long one: 2 * 100 rows of 5 logits come back.
  AddInput(request, "tokens", "INT32", {2, 100},
           RawBytes(std::vector<int32_t>(200, 1)));
  AddInput(request, "lengths", "INT32", {2}, RawBytes<int32_t>({1, 1}));
  request.add_outputs()->set_name("logits");
  const auto decode = [&](int64_t bytes) {
    return DecodeWith(request, *TokenModel(), SharedMemoryRegions(),
                      {.max_input_bytes = 0, .max_output_bytes = bytes})
        .status();
  };
  EXPECT_TRUE(decode(2 * 100 * 5 * 4).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(decode(2 * 100 * 5 * 4 - 1)));
}

// --- Sequences ---

TEST(DecodeTest, ASequenceHasABatchOfOne) {
  ModelInferRequest request = TokenRequest();
  (*request.mutable_parameters())["sequence_id"].set_int64_param(1);
  ExpectInvalid(request, *TokenModel(), "batch of 1");
  request.clear_inputs();
  request.clear_raw_input_contents();
  AddInput(request, "tokens", "INT32", {1, 1}, RawBytes<int32_t>({1}));
  EXPECT_TRUE(Decoded(request, *TokenModel()).ok());
}

// --- Shared memory ---

class SharedMemoryDecodeTest : public testing::Test {
 protected:
  SharedMemoryDecodeTest()
      : key_(UniqueKey()),
        fd_(shm_open(key_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600)) {
    const std::string bytes = RawBytes<int32_t>({9, 4, 3, 2, 1, 0});
    EXPECT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0),
              ssize_t(bytes.size()));
    EXPECT_TRUE(regions_.Register("in", key_, 0, bytes.size()).ok());
  }
  ~SharedMemoryDecodeTest() override {
    close(fd_);
    shm_unlink(key_.c_str());
  }

  template <typename Tensor>
  static void Place(Tensor& tensor, const std::string& region, int64_t offset,
                    int64_t size) {
    auto& parameters = *tensor.mutable_parameters();
    parameters["shared_memory_region"].set_string_param(region);
    parameters["shared_memory_offset"].set_int64_param(offset);
    parameters["shared_memory_byte_size"].set_int64_param(size);
  }
  absl::StatusOr<DecodedRequest> Decoded(const ModelInferRequest& request,
                                         int64_t max_input_bytes = 1 << 20) {
    return DecodeWith(
        request, *TokenModel(), regions_,
        {.max_input_bytes = max_input_bytes, .max_output_bytes = 1 << 20});
  }
  // Two tokens at `offset`, with lengths as raw contents after them.
  ModelInferRequest Request(const std::string& region, int64_t offset,
                            int64_t size) {
    ModelInferRequest request;
    auto& tokens = *request.add_inputs();
    tokens.set_name("tokens");
    tokens.set_datatype("INT32");
    tokens.add_shape(1);
    tokens.add_shape(2);
    Place(tokens, region, offset, size);
    AddInput(request, "lengths", "INT32", {1}, RawBytes<int32_t>({2}));
    return request;
  }

  const std::string key_;
  const int fd_;
  SharedMemoryRegions regions_;
};

TEST_F(SharedMemoryDecodeTest, InputsLieInRegions) {
  const auto decoded = Decoded(Request("in", 8, 8));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->batch.tokens, (Ints{3, 2}));
}

TEST_F(SharedMemoryDecodeTest, WhatLiesThereIsNotSentToo) {
  ModelInferRequest typed = Request("in", 8, 8);
  typed.mutable_inputs()->RemoveLast();
  typed.clear_raw_input_contents();
  ASSERT_TRUE(Decoded(typed).ok());
  typed.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  typed.mutable_inputs(0)->mutable_contents()->add_int_contents(2);
  const absl::Status status = Decoded(typed).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("`tokens`"), absl::string_view::npos);
  EXPECT_NE(status.message().find("shared memory"), absl::string_view::npos);

  ModelInferRequest raw = Request("in", 8, 8);
  raw.add_raw_input_contents(RawBytes<int32_t>({1}));
  EXPECT_TRUE(absl::IsInvalidArgument(Decoded(raw).status()));
}

TEST_F(SharedMemoryDecodeTest, PlacesAreChecked) {
  EXPECT_TRUE(absl::IsNotFound(Decoded(Request("absent", 0, 8)).status()));
  for (const auto& [offset, size] : {std::pair<int64_t, int64_t>{20, 8},
                                     {-8, 8},
                                     {0, -8},
                                     {0, 12},
                                     {0, 4}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(Decoded(Request("in", offset, size)).status()))
        << offset << " " << size;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      Decoded(Request("in", 8, 8), /*max_input_bytes=*/7).status()));
}

TEST_F(SharedMemoryDecodeTest, OutputsMustFit) {
  ModelInferRequest request = Request("in", 8, 8);
  auto& output = *request.add_outputs();
  output.set_name("classes");  // 8 bytes
  Place(output, "in", 16, 8);
  EXPECT_TRUE(Decoded(request).ok());
  Place(output, "in", 16, 4);
  EXPECT_TRUE(absl::IsInvalidArgument(Decoded(request).status()));
  output.set_name("logits");
  (*output.mutable_parameters())["classification"].set_int64_param(1);
  EXPECT_TRUE(absl::IsInvalidArgument(Decoded(request).status()));
}

}  // namespace
}  // namespace recurve::server::kserve
