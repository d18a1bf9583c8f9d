#include "engine/jobs/record_format.h"

#include <string>

#include "gtest/gtest.h"

namespace recurve {
namespace {

// The vectors of RFC 3720, appendix B.4, and the usual check value.
TEST(RecordFormatTest, Crc32cIsTheStandards) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending += static_cast<char>(i);
    descending += static_cast<char>(31 - i);
  }
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

// tests/integration/tensorboard_test.py has the real reader.
TEST(RecordFormatTest, ARecordIsItsLengthItsBytesAndTheirChecksums) {
  const std::string record = FramedRecord("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

}  // namespace
}  // namespace recurve
