#include "engine/serve/registry.h"

#include <atomic>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/testing/fault_file_calls.h"
#include "engine/model/initialize.h"
#include "engine/model/safetensors.h"
#include "engine/serve/version_files.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"pb(
  input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
  blocks { sru { hidden_size: 6 num_layers: 2 } }
  output { linear { size: 5 } }
  loss { kind: CROSS_ENTROPY }
)pb";

v1::ModelConfig Config() {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kConfig, &config));
  return config;
}

VersionContents Contents(uint64_t seed = 1) {
  VersionContents contents;
  contents.model = *Model::Create(Config());
  contents.parameters = InitializeParameters(*contents.model, seed);
  contents.source = "created";
  return contents;
}

class RegistryTest : public testing::Test {
 protected:
  RegistryTest() {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    Open();
  }
  void Open() {
    registry_.reset();
    auto registry = Registry::Open(dir_);
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
  }
  absl::StatusCode GetCode(const std::string& name) {
    return registry_->Get(name).status().code();
  }

  const std::string dir_ = absl::StrCat(
      testing::TempDir(), "/",
      testing::UnitTest::GetInstance()->current_test_info()->name());
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTest, ReadsBackWhatWasPublishedAfterARestart) {
  VersionContents contents = Contents();
  contents.vocabulary = {"a", "b", "\xc3\xa4", "\"", ""};
  contents.names = DefaultNames(*contents.model);
  contents.names->embedding = "encoder.";
  contents.request_id = "r1";
  const auto created = registry_->Create("lm", contents);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ((*created)->name, "models/lm/versions/1");

  Open();
  const auto read = registry_->Get("models/lm");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ((*read)->name, "models/lm/versions/1");
  EXPECT_EQ((*read)->vocabulary, contents.vocabulary);
  EXPECT_EQ((*read)->source, "created");
  EXPECT_EQ((*read)->names.embedding, "encoder.");
  EXPECT_EQ((*read)->sha256, (*created)->sha256);
  EXPECT_EQ((*read)->create_time, (*created)->create_time);
  EXPECT_EQ((*read)->model->config().SerializeAsString(),
            Config().SerializeAsString());
  const auto parameters = (*read)->Parameters();
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_EQ(**parameters, contents.parameters);
}

TEST_F(RegistryTest, CreateRefusesAModelThatIsThereAndPublishAddsAVersion) {
  ASSERT_TRUE(registry_->Create("lm", Contents()).ok());
  EXPECT_EQ(registry_->Create("lm", Contents()).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ((*registry_->Publish("lm", Contents(2)))->name,
            "models/lm/versions/2");
  EXPECT_EQ((*registry_->Get("models/lm"))->number, 2);
  EXPECT_EQ((*registry_->Get("models/lm/versions/1"))->number, 1);
  EXPECT_EQ(GetCode("models/lm/versions/3"), absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, ARepeatedRequestGivesTheSameVersionAcrossRestarts) {
  VersionContents contents = Contents();
  contents.request_id = "r1";
  ASSERT_TRUE(registry_->Create("lm", contents).ok());
  ASSERT_TRUE(registry_->Publish("lm", Contents()).ok());
  Open();
  EXPECT_EQ((*registry_->Create("lm", contents))->number, 1);
  EXPECT_EQ((*registry_->Publish("lm", contents))->number, 1);
  EXPECT_EQ((*registry_->Describe("models/lm")).version_count, 2);
  EXPECT_EQ(registry_->FindRequest("lm", ""), nullptr);
}

TEST_F(RegistryTest, RefusesBadNames) {
  for (const char* id : {"", "..", "A", "a/b", ".x"}) {
    EXPECT_EQ(registry_->Create(id, Contents()).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const char* name :
       {"", "lm", "models/", "models/LM", "models/lm/versions",
        "models/lm/versions/0", "models/lm/versions/01",
        "models/lm/versions/-1", "models/lm/versions/x", "models/../etc",
        "models/lm/versions/1/x", "models/lm/aliases", "models/lm/aliases/",
        "models/lm/aliases/..", "models/lm/aliases/A"}) {
    EXPECT_EQ(GetCode(name), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(GetCode("models/lm"), absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, RefusesContentsThatDoNotFit) {
  VersionContents vocabulary = Contents();
  vocabulary.vocabulary = {"a", "b"};
  EXPECT_EQ(registry_->Create("lm", vocabulary).status().code(),
            absl::StatusCode::kInvalidArgument);
  VersionContents twice = Contents();
  twice.vocabulary = {"a", "a", "b", "c", "d"};
  EXPECT_EQ(registry_->Create("lm", twice).status().code(),
            absl::StatusCode::kInvalidArgument);
  VersionContents nan = Contents();
  nan.parameters[0] = NAN;
  EXPECT_EQ(registry_->Create("lm", nan).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetCode("models/lm"), absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, KeepsNothingThatItCouldNotReadBack) {
  VersionContents contents = Contents();
  contents.request_id = std::string(65 << 20, 'r');
  EXPECT_EQ(registry_->Publish("m", std::move(contents)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetCode("models/m"), absl::StatusCode::kNotFound);
  Open();
  EXPECT_EQ(GetCode("models/m"), absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, DeletedModelsAreGoneAndTheirIdIsFree) {
  ASSERT_TRUE(registry_->Create("lm", Contents(1)).ok());
  const ModelHandle old = *registry_->Get("models/lm");
  const auto weights = old->Parameters();
  std::string dropped;
  registry_->OnDelete([&](const ModelVersion& v) { dropped = v.name; });
  ASSERT_TRUE(registry_->Delete("models/lm").ok());
  EXPECT_EQ(dropped, "models/lm/versions/1");
  EXPECT_EQ(GetCode("models/lm"), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry_->Delete("models/lm").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(registry_->Create("lm", Contents(2)).ok());
  // The handle's weights were in use and stay; they are not the new ones.
  EXPECT_EQ(**old->Parameters(), **weights);
  Open();
  EXPECT_EQ((*registry_->Describe("models/lm")).version_count, 1);
}

TEST_F(RegistryTest, WeightsOfADeletedVersionThatWereNotReadAreNotFound) {
  const ModelHandle version = *registry_->Create("lm", Contents());
  ASSERT_TRUE(registry_->Delete("models/lm").ok());
  EXPECT_EQ(version->Parameters().status().code(), absl::StatusCode::kNotFound);
}

// Files that a deletion takes away are no damage, at whatever moment.
TEST_F(RegistryTest, AReaderOfADeletedVersionIsToldSo) {
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      const auto version = registry_->Get("models/lm");
      if (!version.ok()) continue;
      const absl::Status read = (*version)->Parameters().status();
      EXPECT_TRUE(read.ok() || absl::IsNotFound(read)) << read;
    }
  });
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(registry_->Publish("lm", Contents()).ok());
    EXPECT_TRUE(registry_->Delete("models/lm").ok());
  }
  stop = true;
  reader.join();
}

TEST_F(RegistryTest, AFirstVersionThatCannotBeStoredLeavesNothing) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, ENOSPC);
    const absl::Status status = registry_->Create("lm", Contents()).status();
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted)
        << faults.where();
    EXPECT_EQ(GetCode("models/lm"), absl::StatusCode::kNotFound);
    EXPECT_TRUE(fs::is_empty(dir_ + "/models")) << faults.where();
  }
  Open();
  EXPECT_TRUE((*registry_->Get("models/lm"))->Parameters().ok());
}

TEST_F(RegistryTest, ALaterVersionIsStoredWholeOrNotAtAll) {
  ASSERT_TRUE(registry_->Create("lm", Contents(1)).ok());
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, EIO);
    const absl::Status status = registry_->Publish("lm", Contents(2)).status();
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << faults.where();
    EXPECT_EQ((*registry_->Get("models/lm"))->number, 1);
    Open();
    EXPECT_EQ((*registry_->Get("models/lm"))->number, 1) << faults.where();
    EXPECT_TRUE((*registry_->Get("models/lm"))->Parameters().ok());
  }
  EXPECT_EQ((*registry_->Get("models/lm"))->number, 2);
}

// What then appears after a restart was never acknowledged, but it is whole,
// and the repeated request finds it or makes it.
TEST_F(RegistryTest, ADiskThatStaysFullLeavesNoHalfVersion) {
  VersionContents contents = Contents(2);
  contents.request_id = "r";
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, ENOSPC, Faults::kFromThen);
    const absl::Status status = registry_->Publish("lm", contents).status();
    if (!faults.Disarm()) break;
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(GetCode("models/lm"), absl::StatusCode::kNotFound);
    if (n % 2 == 0) Open();
    const auto again = registry_->Publish("lm", contents);
    ASSERT_TRUE(again.ok()) << faults.where() << again.status();
    EXPECT_EQ((*again)->number, 1) << faults.where();
    Open();
    EXPECT_TRUE(registry_->Unreadable().empty()) << faults.where();
    EXPECT_EQ(**(*registry_->Get("models/lm"))->Parameters(),
              contents.parameters);
    ASSERT_TRUE(registry_->Delete("models/lm").ok());
  }
}

TEST_F(RegistryTest, AModelIsDeletedOrAsItWas) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    ASSERT_TRUE(registry_->Publish("lm", Contents()).ok());
    faults.FailAt(n, EIO);
    const bool deleted = registry_->Delete("models/lm").ok();
    if (!faults.Disarm()) break;
    const auto expected =
        deleted ? absl::StatusCode::kNotFound : absl::StatusCode::kOk;
    EXPECT_EQ(GetCode("models/lm"), expected) << faults.where();
    Open();
    EXPECT_EQ(GetCode("models/lm"), expected) << faults.where();
    EXPECT_TRUE(registry_->Unreadable().empty()) << faults.where();
  }
  EXPECT_TRUE(fs::is_empty(dir_ + "/models"));
}

TEST_F(RegistryTest, ListsInPages) {
  for (const char* id : {"c", "a", "b"}) {
    ASSERT_TRUE(registry_->Create(id, Contents()).ok());
  }
  ASSERT_TRUE(registry_->Publish("b", Contents()).ok());
  const auto first = registry_->ListModels("", 2);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].name, "models/a");
  EXPECT_EQ(first[1].latest_version, "models/b/versions/2");
  const auto second = registry_->ListModels("b", 2);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].name, "models/c");
  const auto versions = *registry_->ListVersions("models/b", 1, 10);
  ASSERT_EQ(versions.size(), 1u);
  EXPECT_EQ(versions[0]->number, 2);
}

TEST_F(RegistryTest, WhatACrashLeftHalfDoneIsSweptAndNotSeen) {
  ASSERT_TRUE(registry_->Create("lm", Contents()).ok());
  fs::create_directories(dir_ + "/models/lm/versions/.aside-2");
  fs::create_directories(dir_ + "/models/.aside-old-1/versions/1");
  fs::create_directories(dir_ + "/models/new/versions");
  Open();
  EXPECT_EQ(registry_->ListModels("", 10).size(), 1u);
  EXPECT_FALSE(fs::exists(dir_ + "/models/lm/versions/.aside-2"));
  EXPECT_FALSE(fs::exists(dir_ + "/models/.aside-old-1"));
  EXPECT_EQ((*registry_->Publish("lm", Contents()))->number, 2);
  EXPECT_TRUE(registry_->Create("new", Contents()).ok());
}

// Flips one byte in the middle of the file.
void Damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
  file.seekg(middle);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(middle);
  file.put(byte);
}

TEST_F(RegistryTest, DamagedFilesAreDataLossThatNamesThem) {
  for (const char* name :
       {kWeightsFile, kConfigFile, kVocabularyFile, kMetadataFile}) {
    for (const bool remove : {false, true}) {
      const std::string id =
          absl::StrCat(std::string(name).substr(0, 2), remove ? "r" : "f");
      VersionContents contents = Contents();
      contents.vocabulary = {"a", "b", "c", "d", "e"};
      ASSERT_TRUE(registry_->Create(id, contents).ok());
      const std::string path =
          absl::StrCat(dir_, "/models/", id, "/versions/1/", name);
      if (remove) {
        fs::remove(path);
      } else if (name == kMetadataFile) {
        std::ofstream(path) << "{\"format\": 1";
      } else {
        Damage(path);
      }
      Open();
      const auto version = registry_->Get("models/" + id);
      const absl::Status status =
          version.ok() ? (*version)->Parameters().status() : version.status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << path << status;
      EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
      EXPECT_EQ(registry_->Unreadable().empty(), version.ok());
      // The next version is not hindered.
      EXPECT_EQ((*registry_->Publish(id, Contents()))->number, 2);
      EXPECT_TRUE(registry_->Get("models/" + id).ok());
    }
  }
}

TEST_F(RegistryTest, ImportsItsOwnFiles) {
  const ModelHandle created = *registry_->Create("lm", Contents());
  ImportContents import;
  import.path = absl::StrCat(created->directory, "/", kWeightsFile);
  import.config = Config();
  const auto imported = registry_->Import("copy", import);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ((*imported)->sha256, created->sha256);
  EXPECT_EQ((*imported)->source, "imported");
}

TEST_F(RegistryTest, PublishersOfOneModelGetDifferentNumbers) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 5; ++k) {
        EXPECT_TRUE(registry_->Publish("lm", Contents(i)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*registry_->Get("models/lm"))->number, 20);
  EXPECT_EQ(registry_->ListVersions("models/lm", 0, 100)->size(), 20u);
}

// --- Deleting one version ---

TEST_F(RegistryTest, ADeletedVersionIsGoneAndItsNumberIsNotUsedAgain) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(registry_->Publish("lm", Contents(i)).ok());
  }
  std::vector<std::string> dropped;
  registry_->OnDelete(
      [&](const ModelVersion& v) { dropped.push_back(v.name); });
  ASSERT_TRUE(registry_->DeleteVersion("models/lm/versions/3").ok());
  ASSERT_TRUE(registry_->DeleteVersion("models/lm/versions/1").ok());
  EXPECT_EQ(dropped, (std::vector<std::string>{"models/lm/versions/3",
                                               "models/lm/versions/1"}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(GetCode("models/lm/versions/3"), absl::StatusCode::kNotFound);
    EXPECT_EQ((*registry_->Get("models/lm"))->number, 2);
    EXPECT_EQ((*registry_->Describe("models/lm")).version_count, 1);
    Open();
  }
  EXPECT_EQ((*registry_->Publish("lm", Contents()))->number, 4);
  ASSERT_TRUE(registry_->DeleteVersion("models/lm/versions/4").ok());
  Open();
  EXPECT_EQ((*registry_->Publish("lm", Contents()))->number, 5);
}

TEST_F(RegistryTest, VersionsThatAreNeededAreNotDeleted) {
  ASSERT_TRUE(registry_->Publish("lm", Contents()).ok());
  EXPECT_EQ(registry_->DeleteVersion("models/lm/versions/1").code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(registry_->Publish("lm", Contents()).ok());
  ASSERT_TRUE(
      registry_->SetAlias("models/lm/aliases/stable", "models/lm/versions/1")
          .ok());
  const absl::Status refused = registry_->DeleteVersion("models/lm/versions/1");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("stable"), absl::string_view::npos);
  EXPECT_EQ(registry_->DeleteVersion("models/lm").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(registry_->DeleteVersion("models/lm/aliases/stable").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(registry_->DeleteVersion("models/lm/versions/3").code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(registry_->DeleteVersion("models/ln/versions/1").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, AVersionIsDeletedOrAsItWas) {
  ASSERT_TRUE(registry_->Publish("lm", Contents()).ok());
  int64_t number = 1;
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    const auto version = registry_->Publish("lm", Contents());
    ASSERT_TRUE(version.ok()) << version.status();
    EXPECT_GT((*version)->number, number) << faults.where();
    number = (*version)->number;
    const std::string name = (*version)->name;
    faults.FailAt(n, EIO);
    const bool deleted = registry_->DeleteVersion(name).ok();
    if (!faults.Disarm()) break;
    for (int i = 0; i < 2; ++i) {
      const auto found = registry_->Get(name);
      EXPECT_EQ(found.ok(), !deleted) << faults.where();
      if (found.ok()) {
        EXPECT_TRUE((*found)->Parameters().ok());
      }
      EXPECT_TRUE(registry_->Unreadable().empty()) << faults.where();
      Open();
    }
  }
}

// --- Aliases ---

class AliasTest : public RegistryTest {
 protected:
  AliasTest() {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(registry_->Publish("lm", Contents(i)).ok());
    }
  }
  absl::Status Set(const std::string& alias, const std::string& version) {
    return registry_->SetAlias("models/lm/aliases/" + alias, version);
  }
  // 0 for an alias that is not there.
  int64_t Target(const std::string& alias) {
    const auto version = registry_->Get("models/lm/aliases/" + alias);
    return version.ok() ? (*version)->number : 0;
  }

  const std::string path_ = dir_ + "/models/lm/aliases.json";
};

TEST_F(AliasTest, PointsAtAVersionAcrossRestarts) {
  ASSERT_TRUE(Set("stable", "models/lm/versions/1").ok());
  ASSERT_TRUE(Set("canary", "models/lm").ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Target("stable"), 1);
    EXPECT_EQ(Target("canary"), 3);
    EXPECT_EQ((*registry_->Describe("models/lm")).aliases,
              (Aliases{{"canary", 3}, {"stable", 1}}));
    EXPECT_EQ(registry_->ListModels("", 1)[0].aliases.size(), 2u);
    Open();
  }
  // The newest is another now; the alias stays.
  ASSERT_TRUE(registry_->Publish("lm", Contents()).ok());
  EXPECT_EQ(Target("canary"), 3);
  ASSERT_TRUE(Set("stable", "models/lm/aliases/canary").ok());
  EXPECT_EQ(Target("stable"), 3);
  ASSERT_TRUE(registry_->DeleteAlias("models/lm/aliases/canary").ok());
  Open();
  EXPECT_EQ(Target("stable"), 3);
  EXPECT_EQ(GetCode("models/lm/aliases/canary"), absl::StatusCode::kNotFound);
}

TEST_F(AliasTest, BadOnesAreRefusedAndChangeNothing) {
  ASSERT_TRUE(registry_->Publish("other", Contents()).ok());
  using Code = absl::StatusCode;
  EXPECT_EQ(Set("stable", "models/lm/versions/4").code(), Code::kNotFound);
  EXPECT_EQ(Set("stable", "models/other/versions/1").code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Set("stable", "1").code(), Code::kInvalidArgument);
  EXPECT_EQ(Set("", "models/lm").code(), Code::kInvalidArgument);
  EXPECT_EQ(registry_->SetAlias("models/lm", "models/lm").code(),
            Code::kInvalidArgument);
  EXPECT_EQ(registry_->SetAlias("models/ln/aliases/a", "models/ln").code(),
            Code::kNotFound);
  EXPECT_EQ(registry_->DeleteAlias("models/lm/aliases/stable").code(),
            Code::kNotFound);
  EXPECT_TRUE((*registry_->Describe("models/lm")).aliases.empty());
  EXPECT_EQ(registry_->Describe("models/lm/aliases/stable").status().code(),
            Code::kInvalidArgument);
}

TEST_F(AliasTest, AModelHasOnlySoMany) {
  for (int i = 0; i < Registry::kMaxAliases; ++i) {
    ASSERT_TRUE(Set(absl::StrCat("a", i), "models/lm").ok());
  }
  EXPECT_EQ(Set("b", "models/lm").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Set("a0", "models/lm/versions/1").ok());
}

TEST_F(AliasTest, GoWithTheModel) {
  ASSERT_TRUE(Set("stable", "models/lm").ok());
  ASSERT_TRUE(registry_->Delete("models/lm").ok());
  ASSERT_TRUE(registry_->Publish("lm", Contents()).ok());
  EXPECT_EQ(Target("stable"), 0);
}

TEST_F(AliasTest, ADamagedFileCostsTheAliasesAlone) {
  ASSERT_TRUE(Set("stable", "models/lm/versions/1").ok());
  std::ifstream file(path_);
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  std::string other_target = good;
  other_target.replace(good.find("\"stable\": 1") + 10, 1, "2");
  for (const std::string& bytes :
       {std::string(), std::string("{"), std::string("[]"),
        good.substr(0, good.size() / 2), other_target,
        std::string(R"({"format": 2, "aliases": {}, "sha256": ""})"),
        std::string(R"({"format": 1, "aliases": {"stable": "x"}})")}) {
    std::ofstream(path_, std::ios::trunc) << bytes;
    Open();
    const absl::Status status =
        registry_->Get("models/lm/aliases/stable").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_NE(status.message().find(path_), absl::string_view::npos);
    ASSERT_EQ(registry_->Unreadable().size(), 1u);
    EXPECT_EQ((*registry_->Get("models/lm"))->number, 3);
    EXPECT_TRUE(registry_->Get("models/lm/versions/1").ok());
    // Setting one anew makes the file good.
    ASSERT_TRUE(Set("canary", "models/lm/versions/2").ok());
    Open();
    EXPECT_EQ(Target("canary"), 2);
    EXPECT_TRUE(registry_->Unreadable().empty());
  }
}

TEST_F(AliasTest, IsSetOrAsItWas) {
  ASSERT_TRUE(Set("stable", "models/lm/versions/1").ok());
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    const int64_t before = Target("stable");
    const int64_t after = 3 - before;
    faults.FailAt(n, EIO);
    const absl::Status set =
        Set("stable", absl::StrCat("models/lm/versions/", after));
    if (!faults.Disarm()) break;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Target("stable"), set.ok() ? after : before)
          << faults.where() << set;
      EXPECT_TRUE(registry_->Unreadable().empty()) << faults.where();
      Open();
    }
  }
}

TEST_F(AliasTest, ADiskThatStaysFullCostsNoAlias) {
  ASSERT_TRUE(Set("stable", "models/lm/versions/1").ok());
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, ENOSPC, Faults::kFromThen);
    const bool set = Set("stable", "models/lm/versions/2").ok();
    if (!faults.Disarm()) break;
    EXPECT_FALSE(set) << faults.where();
    EXPECT_EQ(Target("stable"), 1);
    Open();
    EXPECT_TRUE(Target("stable") == 1 || Target("stable") == 2);
    ASSERT_TRUE(Set("stable", "models/lm/versions/1").ok());
  }
}

TEST_F(AliasTest, SeenWhileItIsSwitchedIsTheOneOrTheOther) {
  ASSERT_TRUE(Set("stable", "models/lm/versions/1").ok());
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      const auto version = registry_->Get("models/lm/aliases/stable");
      ASSERT_TRUE(version.ok()) << version.status();
      EXPECT_TRUE((*version)->number == 1 || (*version)->number == 2);
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(
        Set("stable", absl::StrCat("models/lm/versions/", 1 + i % 2)).ok());
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace recurve
