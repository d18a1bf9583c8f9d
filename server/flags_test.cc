#include "server/flags.h"

#include "gtest/gtest.h"
#include "server/config.pb.h"

namespace recurve::server {
namespace {

TEST(FlagsTest, TakesBothSpellings) {
  ServerConfig config;
  ASSERT_TRUE(ParseFlags({"--listen", "0.0.0.0:1", "--max_trainers=3",
                          "--devices=cpu:1,cpu:1",
                          "--data_root=", "--serving_share=0.25"},
                         &config)
                  .ok());
  EXPECT_EQ(config.listen(), "0.0.0.0:1");
  EXPECT_EQ(config.max_trainers(), 3);
  EXPECT_EQ(config.devices(), "cpu:1,cpu:1");
  EXPECT_EQ(config.serving_share(), 0.25);
  EXPECT_TRUE(config.has_data_root());
  EXPECT_FALSE(config.has_data_dir());
}

TEST(FlagsTest, SaysWhatIsWrong) {
  ServerConfig config;
  const auto message = [&](const std::string& flag) {
    const absl::Status status = ParseFlags({flag}, &config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag;
    return std::string(status.message());
  };
  EXPECT_EQ(message("--max_trainers=many"),
            "--max_trainers: \"many\" is not a int32");
  EXPECT_EQ(message("--max_trainers=99999999999"),
            "--max_trainers: \"99999999999\" is not a int32");
  EXPECT_EQ(message("--serving_share=half"),
            "--serving_share: \"half\" is not a double");
  EXPECT_EQ(message("--port=1"), "there is no flag --port; --help lists them");
  EXPECT_EQ(message("--listen"), "--listen: a value must follow");
  EXPECT_EQ(message("serve"), "\"serve\" is not a flag");
  EXPECT_EQ(message("--nolisten"),
            "there is no flag --nolisten; --help lists them");
}

TEST(FlagsTest, EveryFieldHasHelp) {
  const auto& descriptor = *ServerConfig::descriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    EXPECT_FALSE(descriptor.field(i)->options().GetExtension(help).empty())
        << descriptor.field(i)->name();
  }
  EXPECT_NE(DescribeFlags(ServerConfig()).find("--listen=127.0.0.1:50051"),
            std::string::npos);
}

}  // namespace
}  // namespace recurve::server
