// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/spec/hub_cache.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FindModelFolderTest : public ::testing::Test {
 protected:
  FindModelFolderTest()
      : root_(fs::path(::testing::TempDir()) /
              ("find-model-folder-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~FindModelFolderTest() override { fs::remove_all(root_); }

  void Write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  absl::StatusOr<std::string> Find(const std::string& model) {
    return FindModelFolder(model, [this](const char* name) -> const char* {
      const auto it = variables_.find(name);
      return it == variables_.end() ? nullptr : it->second.c_str();
    });
  }

  const fs::path root_;
  std::map<std::string, std::string> variables_;
};

TEST_F(FindModelFolderTest, TakesAFolderWithConfig) {
  Write("m/config.json", "{}");
  EXPECT_EQ(*Find((root_ / "m").string()), (root_ / "m").string());
}

TEST_F(FindModelFolderTest, SaysThatAFolderHasNoConfig) {
  const auto found = Find(root_.string());
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::string(found.status().message()),
            "model: the folder " + root_.string() +
                " has no config.json; name a folder in Hugging Face layout");
}

TEST_F(FindModelFolderTest, ReadsTheCacheByItsVariables) {
  const std::string id = "models--owner--name";
  Write("hub/" + id + "/refs/main", "abc\n");
  Write("hub/" + id + "/snapshots/abc/config.json", "{}");
  const std::string expected =
      (root_ / "hub" / id / "snapshots" / "abc").string();
  variables_ = {{"HF_HUB_CACHE", (root_ / "hub").string()}};
  EXPECT_EQ(*Find("owner/name"), expected);
  variables_ = {{"HF_HOME", root_.string()}};
  EXPECT_EQ(*Find("owner/name"), expected);
  fs::create_directories(root_ / ".cache" / "huggingface");
  fs::rename(root_ / "hub", root_ / ".cache" / "huggingface" / "hub");
  variables_ = {{"HOME", root_.string()}};
  EXPECT_THAT(*Find("owner/name"), HasSubstr("/.cache/huggingface/hub/"));
  variables_ = {{"XDG_CACHE_HOME", (root_ / ".cache").string()}};
  EXPECT_THAT(*Find("owner/name"), HasSubstr("/.cache/huggingface/hub/"));
}

TEST_F(FindModelFolderTest, TakesTheRevisionThatIsNamedAndNoOther) {
  const std::string id = "hub/models--org--gpt";
  Write(id + "/snapshots/old/config.json", "{}");
  Write(id + "/snapshots/new/config.json", "{}");
  Write(id + "/snapshots/partial/weights", "");
  variables_ = {{"HF_HOME", root_.string()}};
  EXPECT_THAT(std::string(Find("org/gpt").status().message()),
              HasSubstr("of the ref main in "));
  Write(id + "/refs/v1", "old");
  EXPECT_EQ(*Find("org/gpt@v1"), (root_ / id / "snapshots/old").string());
  EXPECT_EQ(*Find("org/gpt@new"), (root_ / id / "snapshots/new").string());
  EXPECT_THAT(std::string(Find("org/gpt@v2").status().message()),
              HasSubstr("fetch it with `hf download org/gpt --revision v2`"));
  for (const char* none : {"org/gpt", "org/gpt@main", "org/gpt@", "org/gpt@..",
                           "org/gpt@partial", "org/gpt@../snapshots/old"}) {
    EXPECT_EQ(Find(none).status().code(), absl::StatusCode::kNotFound) << none;
  }
  Write(id + "/refs/main", "new");
  EXPECT_EQ(*Find("org/gpt"), (root_ / id / "snapshots/new").string());
}

TEST(RevisionOfTest, IsTheFolderOfThatIdsSnapshots) {
  const std::string snapshots = "/c/models--owner--name/snapshots/";
  EXPECT_EQ(RevisionOf("owner/name", snapshots + "abc"), "abc");
  EXPECT_EQ(RevisionOf("gpt", "/c/models--gpt/snapshots/1"), "1");
  EXPECT_EQ(RevisionOf("owner/other", snapshots + "abc"), "");
  EXPECT_EQ(RevisionOf("", snapshots + "abc"), "");
  EXPECT_EQ(RevisionOf("owner/name", "/c/models--owner--name/abc"), "");
  EXPECT_EQ(RevisionOf("owner/name", snapshots), "");
  EXPECT_EQ(RevisionOf("owner/name", ""), "");
  EXPECT_EQ(RevisionOf(snapshots + "abc", snapshots + "abc"), "");
}

TEST(BaseModelOfTest, IsTheModelAsItWasAskedFor) {
  const std::string folder = "/c/models--owner--name/snapshots/abc";
  TrainSpec spec;
  spec.model = "owner/name";  // by hand
  EXPECT_EQ(BaseModelOf(spec, folder), (BaseModel{"owner/name", "abc"}));
  spec.model = folder;
  EXPECT_EQ(BaseModelOf(spec, folder), (BaseModel{folder, ""}));
  spec.model_id = "owner/name";  // by mpsd
  EXPECT_EQ(BaseModelOf(spec, folder), (BaseModel{"owner/name", "abc"}));
  spec.model_id.clear();
  spec.model = "owner/name@v1";  // by hand
  EXPECT_EQ(BaseModelOf(spec, folder), (BaseModel{"owner/name", "abc"}));
}

TEST_F(FindModelFolderTest, FindsTheRevisionOfABaseModel) {
  const std::string id = "hub/models--owner--name";
  Write(id + "/refs/main", "new");
  Write(id + "/refs/v1", "old");
  Write(id + "/snapshots/new/config.json", "{}");
  Write(id + "/snapshots/old/config.json", "{}");
  Write("m/config.json", "{}");
  variables_ = {{"HF_HOME", root_.string()}};
  const auto find = [&](const std::string& name, const std::string& revision) {
    const auto found =
        FindBaseModel({name, revision}, [this](const char* variable) {
          const auto it = variables_.find(variable);
          return it == variables_.end() ? nullptr : it->second.c_str();
        });
    return found.ok() ? fs::relative(*found, root_).string()
                      : std::string(found.status().message());
  };
  EXPECT_EQ(find("owner/name", ""), id + "/snapshots/new");
  EXPECT_EQ(find("owner/name", "old"), id + "/snapshots/old");
  EXPECT_EQ(find("owner/name", "v1"), id + "/snapshots/old");
  EXPECT_EQ(find((root_ / "m").string(), "old"), "m");
  EXPECT_THAT(find("owner/name", "gone"),
              HasSubstr("hf download owner/name --revision gone"));
  EXPECT_THAT(find("owner/name", "../snapshots/old"),
              HasSubstr("config.json of ../snapshots/old in "));
  EXPECT_THAT(find("/no/such", "old"), HasSubstr("there is no folder"));
}

TEST_F(FindModelFolderTest, SaysWhereItLooked) {
  variables_ = {{"HF_HOME", root_.string()}};
  const auto found = Find("owner/name");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::string(found.status().message()),
            "model: neither a folder owner/name nor a snapshot with "
            "config.json of the ref main in " +
                (root_ / "hub" / "models--owner--name").string() +
                "; fetch it with `hf download owner/name`, or name a model "
                "folder");
  for (const char* path : {"/no/such/folder", "../up", "a b"}) {
    EXPECT_EQ(std::string(Find(path).status().message()),
              std::string("model: there is no folder ") + path);
  }
  EXPECT_EQ(Find("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FindModelFolderTest, TheCacheIsThatOfTheProcess) {
  setenv("HF_HUB_CACHE", (root_ / "hub").c_str(), 1);
  EXPECT_EQ(HubCacheFolder(), (root_ / "hub").string());
  Write("hub/models--name/snapshots/abc/config.json", "{}");
  Write("hub/models--name/refs/main", "abc");
  EXPECT_EQ(*FindInHubCache("name"),
            (root_ / "hub/models--name/snapshots/abc").string());
  // Nothing else is looked at.
  Write("folder/config.json", "{}");
  for (const std::string& other :
       {(root_ / "folder").string(), std::string(""), std::string("../x")}) {
    EXPECT_EQ(FindInHubCache(other).status().code(),
              absl::StatusCode::kNotFound);
  }
  unsetenv("HF_HUB_CACHE");
}

TEST(ModelFolders, AnIdAndItsFolderInTheCache) {
  EXPECT_EQ(RepositoryName("org/name"), "models--org--name");
  EXPECT_EQ(IdOfRepository("models--org--name"), "org/name");
  EXPECT_EQ(IdOfRepository(RepositoryName("gpt2")), "gpt2");
  for (const char* folder : {"", "models--", "datasets--a--b", ".locks",
                             "models--..--x", "models--a--b c"}) {
    EXPECT_EQ(IdOfRepository(folder), "") << folder;
  }
}

TEST(ModelFolders, APushedModelHasItsName) {
  const std::string folder = PushedFolder("/state/models", "org/m", "abc");
  EXPECT_EQ(folder, "/state/models/models--org--m/pushed/abc");
  EXPECT_TRUE(Names("org/m", folder));
  EXPECT_TRUE(Names("org/m", "/cache/models--org--m/snapshots/abc"));
  EXPECT_FALSE(Names("org/n", folder));
  EXPECT_FALSE(Names("", folder));
  EXPECT_FALSE(Names("org/m", "/state/models/models--org--m/other/abc"));
  // Results name it by its name alone: the hub may have other revisions.
  TrainSpec spec;
  spec.model_id = "org/m";
  EXPECT_EQ(BaseModelOf(spec, folder), (BaseModel{"org/m", ""}));
}

}  // namespace
}  // namespace mpsd::spec
