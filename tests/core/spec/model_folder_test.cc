// SPDX-License-Identifier: Apache-2.0
#include "core/spec/model_folder.h"

#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>

#include "core/spec/train_spec.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::spec {
namespace {

class FindModelFolderTest : public ::testing::Test {
 protected:
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

  const fs::path root_ = FreshFolder("find_model");
  std::map<std::string, std::string> variables_;
};

TEST_F(FindModelFolderTest, TakesAFolderWithConfig) {
  Write("m/config.json", "{}");
  EXPECT_EQ(*Find((root_ / "m").string()), (root_ / "m").string());
  EXPECT_THAT(
      Find(root_.string()),
      Fails(absl::StatusCode::kNotFound,
            testing::StrEq(
                "model: the folder " + root_.string() +
                " has no config.json; name a folder in Hugging Face layout")));
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
  EXPECT_THAT(Find("org/gpt"), Says("of the ref main in "));
  Write(id + "/refs/v1", "old");
  EXPECT_EQ(*Find("org/gpt@v1"), (root_ / id / "snapshots/old").string());
  EXPECT_EQ(*Find("org/gpt@new"), (root_ / id / "snapshots/new").string());
  EXPECT_THAT(Find("org/gpt@v2"),
              Says("fetch it with `hf download org/gpt --revision v2`"));
  for (const char* none : {"org/gpt", "org/gpt@main", "org/gpt@", "org/gpt@..",
                           "org/gpt@partial", "org/gpt@../snapshots/old"}) {
    EXPECT_TRUE(absl::IsNotFound(Find(none).status())) << none;
  }
  Write(id + "/refs/main", "new");
  EXPECT_EQ(*Find("org/gpt"), (root_ / id / "snapshots/new").string());
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
  EXPECT_THAT(
      Find("owner/name"),
      Fails(absl::StatusCode::kNotFound,
            testing::StrEq(
                "model: neither a folder owner/name nor a snapshot with "
                "config.json of the ref main in " +
                (root_ / "hub" / "models--owner--name").string() +
                "; fetch it with `hf download owner/name`, or name a model "
                "folder")));
  for (const char* path : {"/no/such/folder", "../up", "a b"}) {
    EXPECT_EQ(Find(path).status().message(),
              std::string("model: there is no folder ") + path);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Find("").status()));
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
    EXPECT_TRUE(absl::IsNotFound(FindInHubCache(other).status()));
  }
  unsetenv("HF_HUB_CACHE");
}

TEST(ModelFolders, APushedModelHasItsNameAndAFolderItsId) {
  EXPECT_EQ(RepositoryName("org/name"), "models--org--name");
  EXPECT_EQ(IdOfRepository("models--org--name"), "org/name");
  EXPECT_EQ(IdOfRepository(RepositoryName("gpt2")), "gpt2");
  for (const char* folder : {"", "models--", "datasets--a--b", ".locks",
                             "models--..--x", "models--a--b c"}) {
    EXPECT_EQ(IdOfRepository(folder), "") << folder;
  }
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

constexpr char kLlama[] = R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "hidden_act": "silu"})";

// A safetensors file with this header and so many bytes of data.
std::string Safetensors(const std::string& header, size_t data) {
  std::string bytes;
  for (uint64_t n = header.size(), i = 0; i < 8; ++i, n >>= 8) {
    bytes.push_back(static_cast<char>(n & 0xff));
  }
  return bytes + header + std::string(data, 'w');
}
constexpr char kHeader[] =
    R"({"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";

class ModelFilesTest : public testing::Test {
 protected:
  ModelFilesTest() { Write("config.json", kLlama); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string Problem() {
    const auto model = ReadModelFolder(folder_);
    EXPECT_TRUE(absl::IsInvalidArgument(model.status())) << model.status();
    return std::string(model.status().message());
  }

  const fs::path folder_ = FreshFolder("model_files");
};

TEST_F(ModelFilesTest, WhatAModelConsistsOfAndWhatItDoesNot) {
  for (const char* name :
       {"config.json", "model.safetensors", "model-00001-of-00002.safetensors",
        "model.safetensors.index.json", "tokenizer.json", "merges.txt",
        "tokenizer.model", "preprocessor_config.json", "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja"}) {
    EXPECT_TRUE(IsModelFile(name)) << name;
  }
  // All else in a folder, or what passes for a file of it, is left alone.
  for (const std::string& name :
       {std::string(), std::string("README.md"), std::string(".gitattributes"),
        std::string("pytorch_model.bin"), std::string("model.onnx"),
        std::string("onnx/model.safetensors"), std::string("../config.json"),
        std::string("/etc/passwd"), std::string("Config.json"),
        std::string("model/../../x.safetensors"),
        std::string("additional_chat_templates/../config.jinja"),
        std::string("additional_chat_templates/.jinja"),
        std::string("additional_chat_templates/x.json"),
        std::string("model\0.safetensors", 18),
        std::string("mod\xc3\xa8le.safetensors"),
        std::string("consolidated.safetensors"),
        std::string("adapter_model.safetensors"), std::string("job.py")}) {
    EXPECT_FALSE(IsModelFile(name)) << name;
  }
}

TEST_F(ModelFilesTest, AFolderMayLackWeightsAndNoConfig) {
  EXPECT_THAT(ReadModelFolder(folder_)->weights, IsEmpty());
  Write("model.safetensors", Safetensors(kHeader, 12));
  const auto model = ReadModelFolder(folder_).value();
  EXPECT_THAT(model.weights, ElementsAre("model.safetensors"));
  EXPECT_EQ(model.config.hidden_size, 16);
  Write("config.json", R"({"architectures": ["T5Model"], "model_type": "t5"})");
  EXPECT_TRUE(absl::IsUnimplemented(ReadModelFolder(folder_).status()));
  fs::remove(folder_ / "config.json");
  EXPECT_TRUE(absl::IsNotFound(ReadModelFolder(folder_).status()));
}

TEST_F(ModelFilesTest, WeightsThatAreNotWholeOrAPointerOfGitLfs) {
  Write("model.safetensors", Safetensors(kHeader, 11));
  EXPECT_THAT(Problem(), HasSubstr("model.safetensors: its tensors take 12 "
                                   "bytes and it has 11 for them"));
  Write("model.safetensors", Safetensors(kHeader, 13));
  EXPECT_THAT(Problem(), HasSubstr("incomplete"));
  Write("model.safetensors", Safetensors(kHeader, 12).substr(0, 40));
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
  Write("model.safetensors", "abc");
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
  Write("model.safetensors", "");
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
  Write("model.safetensors",
        "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 7\n");
  EXPECT_THAT(Problem(), HasSubstr("git lfs pull"));
}

TEST_F(ModelFilesTest, HostileHeaders) {
  const std::string deep(100'000, '[');
  const std::string huge = R"({"a":{"data_offsets":[0,18446744073709551615]}})";
  for (const std::string& header :
       {deep, huge, std::string("[]"), std::string("{"), std::string("null"),
        std::string(R"({"a":1})"), std::string(R"({"a":{}})"),
        std::string(R"({"a":{"data_offsets":[0]}})"),
        std::string(R"({"a":{"data_offsets":[0,-1]}})"),
        std::string(R"({"a":{"data_offsets":{"b":0,"c":12}}})"),
        std::string(R"({"a":{"data_offsets":[0,12],"data_offsets":[0,12]}})"),
        std::string(R"({"a":{},"b":{"data_offsets":[0,12]}})"),
        std::string(R"({"a":{"data_offsets":"x"}})")}) {
    Write("model.safetensors", Safetensors(header, 12));
    EXPECT_THAT(Problem(), HasSubstr("is not a safetensors file"))
        << header.substr(0, 50);
  }
  std::string length(8, '\xff');
  Write("model.safetensors", length + "{}");
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
}

TEST_F(ModelFilesTest, AFifoDoesNotBlock) {
  ASSERT_EQ(mkfifo((folder_ / "model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(Problem(), HasSubstr("not a regular file"));
}

TEST_F(ModelFilesTest, EveryShardOfTheIndexHasToBeThere) {
  Write("model.safetensors.index.json",
        R"({"weight_map": {"a": "model-1.safetensors",
                           "b": "model-2.safetensors"}})");
  Write("model-1.safetensors", Safetensors(kHeader, 12));
  EXPECT_THAT(Problem(), HasSubstr("names model-2.safetensors, which is not "
                                   "there"));
  Write("model-2.safetensors", Safetensors(kHeader, 12));
  EXPECT_THAT(ReadModelFolder(folder_)->weights,
              ElementsAre("model-1.safetensors", "model-2.safetensors"));
  Write("model-2.safetensors", Safetensors(kHeader, 5));
  EXPECT_THAT(Problem(), HasSubstr("model-2.safetensors: its tensors"));
}

TEST_F(ModelFilesTest, AnIndexLeadsNowhereElse) {
  for (const char* shard : {"../secret", "/etc/passwd", "", ".hidden", "a/b"}) {
    Write("model.safetensors.index.json",
          std::string(R"({"weight_map": {"a": ")") + shard + R"("}})");
    EXPECT_THAT(Problem(), HasSubstr("is not a file name")) << shard;
  }
  for (const char* index :
       {"[]", "{}", "{", R"({"weight_map": {}})",
        R"({"weight_map": ["model.safetensors"]})",
        R"({"weight_map": {"a": {"b": "model.safetensors"}}})"}) {
    Write("model.safetensors.index.json", index);
    EXPECT_THAT(Problem(), HasSubstr("weight_map")) << index;
  }
}

// What the folders that jobs may read do not have stays closed, by a link too.
TEST_F(ModelFilesTest, OpensNothingOutside) {
  const fs::path outside = FreshFolder("outside");
  std::ofstream(outside / "w") << "secret";
  fs::create_symlink(outside / "w", folder_ / "model.safetensors");
  const base::ReadRoots within({folder_});
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ReadModelFolder(folder_, &within).status()));
}

}  // namespace
}  // namespace mpsd::spec
