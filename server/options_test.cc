#include "server/options.h"

#include <fstream>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace recurve::server {
namespace {

std::string WriteConfig(const std::string& text) {
  const std::string path = testing::TempDir() + "/server.textproto";
  std::ofstream(path) << text;
  return path;
}

TEST(OptionsTest, FlagsWinOverTheFile) {
  const std::string file =
      WriteConfig("max_trainers: 3 max_streams: 7 drain_timeout: \"90s\"");
  const auto options = ParseOptions({"--max_trainers=5", "--config", file}, "");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->config.max_trainers(), 5);
  EXPECT_EQ(options->config.max_streams(), 7);
  EXPECT_EQ(options->config.listen(), "127.0.0.1:50051");
  EXPECT_EQ(options->drain_timeout, absl::Seconds(90));
}

TEST(OptionsTest, RelativePathsBeginAtTheWorkingDirectory) {
  const auto options =
      ParseOptions({"--data_root=texts", "--data_dir=/var/lib/recurve",
                    "--tls_key=key", "--tokens_file=/etc/tokens"},
                   "/home/someone");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->config.data_root(), "/home/someone/texts");
  EXPECT_EQ(options->config.data_dir(), "/var/lib/recurve");
  EXPECT_EQ(options->config.tls_key(), "/home/someone/key");
  EXPECT_EQ(options->config.tokens_file(), "/etc/tokens");
  EXPECT_FALSE(options->config.has_tls_client_ca());
}

TEST(OptionsTest, SaysWhatIsWrongAndWhere) {
  const auto message = [](const std::string& flag) {
    const auto options = ParseOptions({flag}, "");
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(options.status().message());
  };
  EXPECT_NE(message("--config=/no/such/file").find("/no/such/file"),
            std::string::npos);
  const std::string file = WriteConfig("max_trainers: 3\nport: 1");
  EXPECT_NE(message("--config=" + file).find(file + ":2:"), std::string::npos);
  EXPECT_NE(message("--drain_timeout=soon").find("\"soon\""),
            std::string::npos);
  EXPECT_NE(message("--config").find("must follow"), std::string::npos);
}

TEST(OptionsTest, HelpNamesEveryFlag) {
  const std::string help = Help();
  for (const char* flag : {"--config", "--listen", "--devices", "--data_root",
                           "--max_message_bytes"}) {
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace recurve::server
