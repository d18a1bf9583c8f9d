#include "engine/train/trainer_record.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace recurve {
namespace {

TrainerRecord FullRecord() {
  TrainerRecord record;
  TrainerOrigin& origin = record.origin;
  origin.request_id = "r";
  origin.create_time = absl::FromUnixNanos(1'234'567'890'123'456'789);
  origin.model_name = "models/lm";
  origin.names = LibraryNames{
      "encoder.",
      {{"rnn.", KeyStyle::kSru3Dev}, {"", KeyStyle::kLayersWeightDrop}},
      "decoder.",
      false};
  origin.config.set_seed(std::numeric_limits<uint64_t>::max());
  origin.save_every_calls = 3;
  record.save_time = absl::FromUnixNanos(-1);
  record.accumulated_calls = 2;
  for (int64_t number : {7, 8}) {
    NumberedReply reply;
    reply.number = number;
    reply.request_sha256 = std::string("\xff\0x", 3);
    reply.result.step = 5;
    reply.result.updated = true;
    reply.result.accumulated_calls = 1;
    reply.result.loss = 0.1;
    reply.result.weight = std::numeric_limits<double>::denorm_min();
    reply.result.gradient_norm = -0.0;
    reply.result.learning_rate = 1e300;
    reply.result.rows = int64_t{1} << 40;
    reply.result.devices = {{"devices/0", 1, 2, 3.5, 4.25, 5.125},
                            {"devices/1", 6, 7, 8, 9, 10}};
    record.calls.Add(reply);
  }
  return record;
}

TEST(TrainerRecordTest, ComesBackAsItWas) {
  const TrainerRecord before = FullRecord();
  const auto after = ParseTrainerRecord(SerializeTrainerRecord(before));
  ASSERT_TRUE(after.ok()) << after.status();
  const TrainerOrigin& origin = after->origin;
  EXPECT_EQ(origin.request_id, "r");
  EXPECT_EQ(origin.create_time, before.origin.create_time);
  EXPECT_EQ(origin.model_name, "models/lm");
  EXPECT_EQ(origin.config.seed(), before.origin.config.seed());
  EXPECT_EQ(origin.save_every_calls, 3);
  EXPECT_EQ(after->save_time, before.save_time);
  EXPECT_EQ(after->accumulated_calls, 2);

  ASSERT_TRUE(origin.names.has_value());
  EXPECT_EQ(origin.names->embedding, "encoder.");
  ASSERT_EQ(origin.names->blocks.size(), 2u);
  EXPECT_EQ(origin.names->blocks[0].prefix, "rnn.");
  EXPECT_EQ(origin.names->blocks[0].style, KeyStyle::kSru3Dev);
  EXPECT_EQ(origin.names->blocks[1].style, KeyStyle::kLayersWeightDrop);
  EXPECT_EQ(origin.names->output, "decoder.");
  EXPECT_FALSE(origin.names->tied_weight_repeated);

  EXPECT_EQ(after->calls.last_number(), 8);
  ASSERT_EQ(after->calls.replies().size(), 2u);
  const NumberedReply& reply = after->calls.replies().front();
  EXPECT_EQ(reply.number, 7);
  EXPECT_EQ(reply.request_sha256, std::string("\xff\0x", 3));
  EXPECT_EQ(reply.result.step, 5);
  EXPECT_TRUE(reply.result.updated);
  EXPECT_EQ(reply.result.accumulated_calls, 1);
  EXPECT_EQ(reply.result.loss, 0.1);
  EXPECT_EQ(reply.result.weight, std::numeric_limits<double>::denorm_min());
  EXPECT_TRUE(std::signbit(reply.result.gradient_norm));
  EXPECT_EQ(reply.result.learning_rate, 1e300);
  EXPECT_EQ(reply.result.rows, int64_t{1} << 40);
  ASSERT_EQ(reply.result.devices.size(), 2u);
  EXPECT_EQ(reply.result.devices[0].device, "devices/0");
  EXPECT_EQ(reply.result.devices[0].micro_batches, 1);
  EXPECT_EQ(reply.result.devices[0].rows, 2);
  EXPECT_EQ(reply.result.devices[0].compute_ms, 3.5);
  EXPECT_EQ(reply.result.devices[0].exchange_ms, 4.25);
  EXPECT_EQ(reply.result.devices[0].update_ms, 5.125);
}

TEST(TrainerRecordTest, WithoutNamesThereAreNone) {
  const auto record = ParseTrainerRecord(SerializeTrainerRecord({}));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_FALSE(record->origin.names.has_value());
}

TEST(TrainerRecordTest, OtherBytesAreDataLoss) {
  EXPECT_EQ(ParseTrainerRecord("\xff").status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace recurve
