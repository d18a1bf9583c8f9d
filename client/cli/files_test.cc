#include "client/cli/files.h"

#include <cstdlib>
#include <fstream>

#include "gtest/gtest.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve::cli {
namespace {

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string Npy(const std::string& dict, const std::string& data) {
  std::string header = dict + std::string(118 - dict.size() - 1, ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

constexpr char kDict[] =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

TEST(FilesTest, ReadsAFeatureArray) {
  const auto file =
      ReadFeatures(Write("good.npy", Npy(kDict, std::string(24, '\1'))));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->rows, 2);
  EXPECT_EQ(file->columns, 3);
  EXPECT_EQ(file->bytes, std::string(24, '\1'));
}

TEST(FilesTest, RefusesArraysThatAreNotWhatTheySay) {
  for (const std::string& bytes :
       {Npy(kDict, std::string(23, '\1')), Npy(kDict, ""), std::string("x"),
        Npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
            std::string(48, '\1')),
        Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }",
            std::string(24, '\1')),
        Npy("{'descr': '<f4', 'fortran_order': False, "
            "'shape': (9223372036854775807, 4), }",
            std::string(24, '\1')),
        Npy(kDict, "").substr(0, 40)}) {
    EXPECT_EQ(ReadFeatures(Write("bad.npy", bytes)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(FilesTest, AVocabularyIsAnArrayOfStrings) {
  EXPECT_EQ(*ReadVocabulary(Write("good.json", R"(["a", "\n"])")),
            (std::vector<std::string>{"a", "\n"}));
  EXPECT_FALSE(ReadVocabulary(Write("bad.json", R"({"a": 1})")).ok());
  EXPECT_FALSE(ReadVocabulary(Write("bad2.json", R"(["a", 1])")).ok());
  EXPECT_FALSE(ReadVocabulary(Write("bad3.json", "[")).ok());
}

TEST(FilesTest, ATextProtoErrorNamesThePlace) {
  v1::ModelConfig config;
  const auto status =
      ReadTextProto(Write("bad.textproto", "loss {\n  kund: 1\n}"), config);
  EXPECT_NE(status.message().find("bad.textproto:2:"), absl::string_view::npos)
      << status;
}

TEST(FilesTest, AMissingFileIsNamed) {
  const auto bytes = ReadFile("/nowhere/at/all");
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(bytes.status().message().find("/nowhere/at/all"),
            absl::string_view::npos);
}

TEST(FilesTest, RelativePathsStartWhereTheUserIs) {
  setenv("BUILD_WORKING_DIRECTORY", "/home/someone", 1);
  EXPECT_EQ(UserPath("a/b"), "/home/someone/a/b");
  EXPECT_EQ(UserPath("/a/b"), "/a/b");
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_EQ(UserPath("a/b"), "a/b");
}

}  // namespace
}  // namespace recurve::cli
