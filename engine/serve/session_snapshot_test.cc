#include "engine/serve/session_snapshot.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/test_models.h"
#include "engine/serve/sealed_bytes.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

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
  for (int64_t i = 0; i < model.state_size(); ++i) {
    snapshot.carry.push_back(0.1f * static_cast<float>(i) - 1);
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
  snapshot.carry[0] = std::numeric_limits<float>::quiet_NaN();
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
  std::string negative = bytes;
  negative[23] = '\x80';
  EXPECT_TRUE(absl::IsDataLoss(ParseSnapshot(Sealed(negative)).status()));
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

}  // namespace
}  // namespace recurve
