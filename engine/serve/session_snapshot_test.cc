#include "engine/serve/session_snapshot.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/test_models.h"
#include "engine/serve/sealed_bytes.h"
#include "engine/serve/session_rows.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kMostRows = std::numeric_limits<int64_t>::max();

std::shared_ptr<const Model> Sru(int hidden_size, const char* options = "") {
  return MakeModel(absl::StrCat(
      "input { features { size: 3 } } blocks { sru { num_layers: 2 ",
      "hidden_size: ", hidden_size, " ", options, " } }"));
}

ModelHandle Version(std::shared_ptr<const Model> model) {
  return ModelVersion::InMemory(std::move(model), {}, "models/m/versions/1");
}

SessionSnapshot Snapshot(const Model& model) {
  SessionSnapshot snapshot;
  snapshot.model_version = "models/m/versions/1";
  snapshot.shape = ShapeSignature(model);
  snapshot.position = 12345678901;
  snapshot.carry.resize(model.carry_size());
  for (int64_t i = 0; i < model.state_size(); ++i) {
    snapshot.carry[i] = 0.1f * static_cast<float>(i) - 1;
  }
  return snapshot;
}

// With the checksum of what stands before it.
std::string Sealed(std::string bytes) {
  bytes.resize(bytes.size() - kSealBytes);
  return Seal(bytes);
}

TEST(SessionSnapshot, ComesBackBitForBit) {
  const auto model = Sru(4);
  SessionSnapshot snapshot = Snapshot(*model);
  snapshot.carry[0] = std::numeric_limits<float>::lowest();
  snapshot.carry[1] = -0.0f;
  snapshot.carry[2] = std::numeric_limits<float>::denorm_min();
  const auto read = ParseSnapshot(SerializeSnapshot(snapshot));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model_version, snapshot.model_version);
  EXPECT_EQ(read->shape, snapshot.shape);
  EXPECT_EQ(read->position, snapshot.position);
  ASSERT_EQ(read->carry.size(), snapshot.carry.size());
  EXPECT_EQ(std::memcmp(read->carry.data(), snapshot.carry.data(),
                        sizeof(float) * read->carry.size()),
            0);
  EXPECT_TRUE(CheckFits(*read, *Version(model)).ok());
}

TEST(SessionSnapshot, AnyChangedOrMissingByteIsDataLoss) {
  const std::string bytes = SerializeSnapshot(Snapshot(*Sru(4)));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= 0x10;
    EXPECT_TRUE(absl::IsDataLoss(ParseSnapshot(damaged).status())) << i;
    EXPECT_TRUE(absl::IsDataLoss(ParseSnapshot(bytes.substr(0, i)).status()));
    EXPECT_TRUE(absl::IsDataLoss(ParseSnapshot(bytes.substr(i + 1)).status()));
  }
  EXPECT_TRUE(absl::IsDataLoss(ParseSnapshot(bytes + "x").status()));
}

TEST(SessionSnapshot, LengthsThatLieAreDataLossDespiteAChecksum) {
  const std::string bytes = SerializeSnapshot(Snapshot(*Sru(4)));
  for (const size_t at : {12, 15, 24, 27, 31}) {  // name, carry
    for (const char value : {'\x01', '\x7f', '\xff'}) {
      std::string lying = bytes;
      lying[at] = value;
      EXPECT_TRUE(absl::IsDataLoss(ParseSnapshot(Sealed(lying)).status()));
    }
  }
}

TEST(SessionSnapshot, APositionThatNoSessionHasIsDataLoss) {
  SessionSnapshot snapshot = Snapshot(*Sru(4));
  snapshot.position = kMaxSessionRows;
  EXPECT_TRUE(ParseSnapshot(SerializeSnapshot(snapshot)).ok());
  for (const int64_t position : {int64_t{-1}, kMaxSessionRows + 1, kMostRows}) {
    snapshot.position = position;
    EXPECT_TRUE(
        absl::IsDataLoss(ParseSnapshot(SerializeSnapshot(snapshot)).status()))
        << position;
  }
}

TEST(SessionSnapshot, AnotherFormatIsRefusedByItsNumber) {
  std::string bytes = SerializeSnapshot(Snapshot(*Sru(4)));
  bytes[8] = 2;
  const absl::Status status = ParseSnapshot(Sealed(bytes)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("format 2"), std::string::npos) << status;
}

TEST(ShapeSignature, DoesNotDependOnWhatLeavesTheStateAsItIs) {
  EXPECT_EQ(ShapeSignature(*Sru(4)),
            ShapeSignature(*Sru(4, "dropout: 0.3 layer_norm: true")));
  EXPECT_EQ(ShapeSignature(*Sru(4)).size(), 32u);
}

TEST(ShapeSignature, TellsStatesApart) {
  std::set<std::string> signatures;
  const std::vector<std::string> ends = {
      "blocks { sru { hidden_size: 4 num_layers: 2 } }",
      "blocks { sru { hidden_size: 4 num_layers: 3 } }",
      "blocks { sru { hidden_size: 8 num_layers: 1 } }",  // as many numbers
      "blocks { qrnn { hidden_size: 4 num_layers: 2 } }",
      "blocks { qrnn { hidden_size: 4 window: 2 num_layers: 2 } }",
      "blocks { sru { hidden_size: 4 } } output { pooling: POOLING_MEAN }",
      "blocks { sru { hidden_size: 4 } } output { pooling: POOLING_MAX }"};
  for (const std::string& end : ends) {
    signatures.insert(
        ShapeSignature(*MakeModel("input { features { size: 3 } } " + end)));
  }
  EXPECT_EQ(signatures.size(), ends.size());
}

TEST(CheckFits, RefusesAnotherShapeAndModelsWithoutState) {
  const SessionSnapshot snapshot = Snapshot(*Sru(4));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(CheckFits(snapshot, *Version(Sru(8)))));
  const auto both = Sru(4, "bidirectional: true");
  EXPECT_TRUE(
      absl::IsFailedPrecondition(CheckFits(Snapshot(*both), *Version(both))));
}

TEST(CheckFits, ACarryThatIsNotAsLongAsItsShapeSaysIsDataLoss) {
  SessionSnapshot snapshot = Snapshot(*Sru(4));
  snapshot.carry.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(CheckFits(snapshot, *Version(Sru(4)))));
}

TEST(CheckFits, AStateThatIsNotFiniteIsDataLoss) {
  const auto model = Sru(4);
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    for (int64_t i = 0; i < model->state_size(); ++i) {
      SessionSnapshot snapshot = Snapshot(*model);
      snapshot.carry[i] = value;
      const absl::Status status = CheckFits(snapshot, *Version(model));
      EXPECT_TRUE(absl::IsDataLoss(status)) << i << ": " << status;
    }
  }
}

// The words of counts and of sums of doubles are no floats, and may look like
// NaN as such.
TEST(CheckFits, WhatIsPooledIsCheckedAsWhatItIs) {
  const auto model = MakeModel(
      "input { features { size: 3 } } blocks { sru { hidden_size: 3 } } "
      "output { pooling: POOLING_MEAN }");
  const auto check = [&](int64_t rows, double sum) {
    SessionSnapshot snapshot = Snapshot(*model);
    float* const pooled = &snapshot.carry[model->pool_carry_offset()];
    std::memcpy(pooled, &rows, sizeof(rows));
    std::memcpy(pooled + 6, &sum, sizeof(sum));  // of the last channel
    return CheckFits(snapshot, *Version(model));
  };
  double like_nan = 1;
  std::memcpy(&like_nan, &kNan, sizeof(kNan));
  EXPECT_TRUE(check(int64_t{0x7fc00000}, like_nan).ok());
  EXPECT_TRUE(check(kMaxSessionRows, 1e300).ok());
  for (const int64_t rows : {int64_t{-1}, kMaxSessionRows + 1, kMostRows}) {
    EXPECT_TRUE(absl::IsDataLoss(check(rows, 0))) << rows;
  }
  for (const float sum : {kNan, kInfinity}) {
    EXPECT_TRUE(absl::IsDataLoss(check(1, sum))) << sum;
  }
}

TEST(CheckFits, AMaximumThatIsNotFiniteIsDataLoss) {
  const auto model = MakeModel(
      "input { features { size: 3 } } blocks { sru { hidden_size: 3 } } "
      "output { pooling: POOLING_MAX }");
  SessionSnapshot snapshot = Snapshot(*model);
  EXPECT_TRUE(CheckFits(snapshot, *Version(model)).ok());
  snapshot.carry[model->pool_carry_offset() + 4] = kInfinity;
  EXPECT_TRUE(absl::IsDataLoss(CheckFits(snapshot, *Version(model))));
}

}  // namespace
}  // namespace recurve
