#include "engine/train/checkpoint.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/testing/fault_file_calls.h"
#include "engine/base/testing/faults.h"
#include "engine/train/checkpoint_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Numbers of every kind: random bits have NaNs of all payloads, denormals,
// infinities and both zeros among them.
class RandomCheckpoint {
 public:
  explicit RandomCheckpoint(uint32_t seed) : random_(seed) {}

  Checkpoint Make() {
    Checkpoint checkpoint;
    checkpoint.model_config.mutable_input()
        ->mutable_token_embedding()
        ->set_vocabulary_size(Below(1000));
    for (int i = Below(4); i > 0; --i) {
      checkpoint.vocabulary.push_back(Bytes(Below(5)));
    }
    checkpoint.trainer = Trainer();
    checkpoint.details = Bytes(Below(100));
    checkpoint.best_parameters = Floats(Below(2) * size_);
    return checkpoint;
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % limit); }
  double Double() {
    const uint64_t bits = (uint64_t{random_()} << 32) | random_();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  std::vector<float> Floats(int count) {
    std::vector<float> values(count);
    for (float& value : values) {
      uint32_t bits = random_();
      if (Below(4) == 0) bits |= 0x7f800000;                    // NaN, infinity
      if (Below(4) == 0) bits &= 0x807fffff;                    // denormal
      if (Below(8) == 0) bits = uint32_t{Below(2) != 0} << 31;  // 0, -0
      std::memcpy(&value, &bits, sizeof(value));
    }
    return values;
  }
  std::string Bytes(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(Below(256));
    return bytes;
  }
  Stream OneStream() { return {Below(1 << 30), Floats(Below(2) * 3)}; }
  TrainerState Trainer() {
    TrainerState state;
    state.step = (int64_t{1} << 33) + Below(1000);
    state.skipped_steps = Below(10);
    state.accumulated_calls = Below(5);
    state.accumulated_weight = Double();
    state.learning_rate_scale = Double();
    state.parameters = Floats(size_);
    state.first_moment = Floats(Below(2) * size_);
    state.second_moment = Floats(Below(2) * size_);
    state.accumulated_gradient = Floats(Below(2) * size_);
    for (int i = Below(3); i > 0; --i) {
      state.streams.last.push_back(OneStream());
    }
    for (int i = Below(4); i > 0; --i) {
      state.streams.named[Bytes(Below(6))] = OneStream();
    }
    return state;
  }

  std::mt19937 random_;
  const int size_ = 1 + Below(40);
};

template <typename T>
bool SameBits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}
bool Same(const Stream& a, const Stream& b) {
  return a.position == b.position && SameBits(a.state, b.state);
}

bool Same(const Streams& a, const Streams& b) {
  if (a.last.size() != b.last.size() || a.named.size() != b.named.size()) {
    return false;
  }
  for (size_t i = 0; i < a.last.size(); ++i) {
    if (!Same(a.last[i], b.last[i])) return false;
  }
  for (const auto& [name, stream] : a.named) {
    if (b.named.count(name) == 0 || !Same(stream, b.named.at(name))) {
      return false;
    }
  }
  return true;
}

void ExpectSame(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.model_config.SerializeAsString(),
            b.model_config.SerializeAsString());
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.details, b.details);
  EXPECT_TRUE(SameBits(a.best_parameters, b.best_parameters));
  EXPECT_EQ(a.trainer.step, b.trainer.step);
  EXPECT_EQ(a.trainer.skipped_steps, b.trainer.skipped_steps);
  EXPECT_EQ(a.trainer.accumulated_calls, b.trainer.accumulated_calls);
  EXPECT_TRUE(
      SameBits(a.trainer.accumulated_weight, b.trainer.accumulated_weight));
  EXPECT_TRUE(
      SameBits(a.trainer.learning_rate_scale, b.trainer.learning_rate_scale));
  EXPECT_TRUE(SameBits(a.trainer.parameters, b.trainer.parameters));
  EXPECT_TRUE(SameBits(a.trainer.first_moment, b.trainer.first_moment));
  EXPECT_TRUE(SameBits(a.trainer.second_moment, b.trainer.second_moment));
  EXPECT_TRUE(
      SameBits(a.trainer.accumulated_gradient, b.trainer.accumulated_gradient));
  EXPECT_TRUE(Same(a.trainer.streams, b.trainer.streams));
}

Checkpoint OfStep(int64_t step) {
  Checkpoint checkpoint = RandomCheckpoint(static_cast<uint32_t>(step)).Make();
  checkpoint.trainer.step = step;
  return checkpoint;
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : path_(absl::StrCat(
            ::testing::TempDir(), "/checkpoint_",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(path_);
  }

  CheckpointFolder Open() {
    auto folder = CheckpointFolder::Open(path_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  void ExpectNewest(const Checkpoint& expected, size_t num_warnings = 0) {
    CheckpointFolder folder = Open();
    std::vector<std::string> warnings;
    const auto newest = folder.LoadNewest(&warnings);
    ASSERT_TRUE(newest.ok()) << newest.status();
    ExpectSame(*newest, expected);
    EXPECT_EQ(warnings.size(), num_warnings);
  }
  std::vector<int64_t> Steps(const CheckpointFolder& folder) {
    std::vector<int64_t> steps;
    for (const CheckpointInfo& info : folder.list()) {
      steps.push_back(info.step);
    }
    return steps;
  }

  const std::string path_;
};

TEST_F(CheckpointTest, ComesBackBitForBit) {
  std::filesystem::create_directories(path_);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Checkpoint checkpoint = RandomCheckpoint(seed).Make();
    const std::string path = absl::StrCat(path_, "/file");
    const auto size = SaveCheckpointFile(path, checkpoint);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(*size, static_cast<int64_t>(std::filesystem::file_size(path)));
    const auto loaded = LoadCheckpointFile(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ExpectSame(*loaded, checkpoint);
  }
}

TEST_F(CheckpointTest, EveryFlippedByteAndEveryTruncationIsSeen) {
  std::filesystem::create_directories(path_);
  const std::string path = absl::StrCat(path_, "/file");
  ASSERT_TRUE(SaveCheckpointFile(path, OfStep(3)).ok());
  const std::string bytes = ReadBytes(path);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= static_cast<char>(1 << (i % 8));
    WriteBytes(path, damaged);
    ASSERT_EQ(LoadCheckpointFile(path).status().code(),
              absl::StatusCode::kDataLoss)
        << i;
    WriteBytes(path, bytes.substr(0, i));
    ASSERT_EQ(LoadCheckpointFile(path).status().code(),
              absl::StatusCode::kDataLoss)
        << i;
  }
  WriteBytes(path, bytes + '\0');
  EXPECT_FALSE(LoadCheckpointFile(path).ok());
  WriteBytes(path, bytes);
  EXPECT_TRUE(LoadCheckpointFile(path).ok());
}

TEST_F(CheckpointTest, AMissingFileIsNotFound) {
  EXPECT_EQ(LoadCheckpointFile(path_ + "/none").status().code(),
            absl::StatusCode::kNotFound);
  CheckpointFolder folder = Open();
  std::vector<std::string> warnings;
  EXPECT_EQ(folder.LoadNewest(&warnings).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(CheckpointTest, TheNewestAreKept) {
  CheckpointFolder folder = Open();
  for (const int64_t step : {1, 2, 3, 4, 5}) {
    const auto info = folder.Save(OfStep(step), 2);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->number, step);
    EXPECT_EQ(info->size_bytes,
              static_cast<int64_t>(std::filesystem::file_size(info->path)));
  }
  EXPECT_THAT(Steps(folder), ElementsAre(4, 5));
  EXPECT_THAT(Steps(Open()), ElementsAre(4, 5));
  ExpectNewest(OfStep(5));
  folder.Prune(1);
  EXPECT_THAT(Steps(Open()), ElementsAre(5));
}

// After a roll back steps come again; the number decides.
TEST_F(CheckpointTest, TheNewestIsTheOneSavedLast) {
  CheckpointFolder folder = Open();
  ASSERT_TRUE(folder.Save(OfStep(20), 9).ok());
  ASSERT_TRUE(folder.Save(OfStep(7), 9).ok());
  ExpectNewest(OfStep(7));
  ASSERT_TRUE(Open().Save(OfStep(3), 9).ok());
  ExpectNewest(OfStep(3));
}

TEST_F(CheckpointTest, ADamagedOneIsSkippedForTheOneBefore) {
  CheckpointFolder folder = Open();
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_TRUE(folder.Save(OfStep(step), 3).ok());
  }
  std::string bytes = ReadBytes(folder.list()[2].path);
  bytes[bytes.size() / 2] ^= 1;
  WriteBytes(folder.list()[2].path, bytes);
  WriteBytes(folder.list()[1].path, "");
  std::vector<std::string> warnings;
  const auto newest = folder.LoadNewest(&warnings);
  ASSERT_TRUE(newest.ok()) << newest.status();
  ExpectSame(*newest, OfStep(1));
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0], HasSubstr("the checkpoint of step 3"));
  EXPECT_THAT(warnings[1], HasSubstr("the checkpoint of step 2"));
  // They are out of the way, and their numbers are not used again.
  ExpectNewest(OfStep(1));
  EXPECT_EQ(Open().Save(OfStep(2), 3)->number, 4);
  EXPECT_THAT(Steps(Open()), ElementsAre(1, 2));
}

// A link to itself: an error of the system's that says nothing of the bytes.
TEST_F(CheckpointTest, WhatCannotBeReadForNowIsNotSkipped) {
  CheckpointFolder folder = Open();
  ASSERT_TRUE(folder.Save(OfStep(1), 2).ok());
  ASSERT_TRUE(folder.Save(OfStep(2), 2).ok());
  const std::string path = folder.list()[1].path, away = path_ + "/away";
  std::filesystem::rename(path, away);
  std::filesystem::create_symlink(path, path);
  std::vector<std::string> warnings;
  const absl::Status status = folder.LoadNewest(&warnings).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(warnings, IsEmpty());
  std::filesystem::rename(away, path);
  const auto newest = folder.LoadNewest(&warnings);
  ASSERT_TRUE(newest.ok()) << newest.status();
  ExpectSame(*newest, OfStep(2));
  // One that is gone is.
  std::filesystem::remove(path);
  ASSERT_TRUE(folder.LoadNewest(&warnings).ok());
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("the checkpoint of step 2")));
}

TEST_F(CheckpointTest, WhereNoneReadsItIsDataLoss) {
  CheckpointFolder folder = Open();
  ASSERT_TRUE(folder.Save(OfStep(1), 1).ok());
  WriteBytes(folder.list()[0].path, "x");
  std::vector<std::string> warnings;
  EXPECT_EQ(folder.LoadNewest(&warnings).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(warnings.size(), 1u);
}

// Whichever call to the system fails, and whether the disk recovers or not, the
// newest that was acknowledged loads.
TEST_F(CheckpointTest, SavesOrLeavesWhatWasThere) {
  for (const Faults::Extent extent : {Faults::kOnce, Faults::kFromThen}) {
    for (int64_t n = 1;; ++n) {
      std::filesystem::remove_all(path_);
      CheckpointFolder folder = Open();
      ASSERT_TRUE(folder.Save(OfStep(1), 1).ok());
      Faults faults;
      absl::StatusOr<CheckpointInfo> saved;
      bool came;
      {
        FaultFileCalls calls(faults);
        calls.LimitWrites(1000);
        faults.FailAt(n, ENOSPC, extent);
        saved = folder.Save(OfStep(2), 1);
        came = faults.Disarm();
      }
      SCOPED_TRACE(faults.where());
      CheckpointFolder again = Open();
      std::vector<std::string> warnings;
      const auto newest = again.LoadNewest(&warnings);
      ASSERT_TRUE(newest.ok()) << newest.status();
      EXPECT_THAT(warnings, IsEmpty());
      if (saved.ok()) {
        ExpectSame(*newest, OfStep(2));
      } else {
        // An error after the renaming says that it may or may not be there.
        ExpectSame(*newest, OfStep(newest->trainer.step));
        EXPECT_EQ(saved.status().code(), absl::StatusCode::kResourceExhausted);
      }
      // The folder goes on being of use.
      ASSERT_TRUE(folder.Save(OfStep(3), 1).ok());
      ExpectNewest(OfStep(3));
      if (!came) break;
    }
  }
}

// As if the process ended within each call.
TEST_F(CheckpointTest, SurvivesTheEndOfTheProcessAtAnyCall) {
  for (int64_t n = 1;; ++n) {
    std::filesystem::remove_all(path_);
    CheckpointFolder folder = Open();
    ASSERT_TRUE(folder.Save(OfStep(1), 1).ok());
    Faults faults;
    const std::string copy = path_ + "_copy";
    {
      FaultFileCalls calls(faults);
      faults.CallAt(n, [&] {
        std::filesystem::remove_all(copy);
        std::filesystem::copy(path_, copy);
      });
      ASSERT_TRUE(folder.Save(OfStep(2), 1).ok());
      if (!faults.Disarm()) break;
    }
    auto crashed = CheckpointFolder::Open(copy);
    ASSERT_TRUE(crashed.ok());
    std::vector<std::string> warnings;
    const auto newest = crashed->LoadNewest(&warnings);
    ASSERT_TRUE(newest.ok()) << faults.where() << newest.status();
    EXPECT_THAT(warnings, IsEmpty()) << faults.where();
    ExpectSame(*newest, OfStep(newest->trainer.step));
  }
}

}  // namespace
}  // namespace recurve
