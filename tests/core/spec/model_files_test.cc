// SPDX-License-Identifier: Apache-2.0
#include "core/spec/model_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::spec {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  ModelFilesTest()
      : folder_(fs::path(testing::TempDir()) /
                ("model-files-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Write("config.json", kLlama);
  }
  ~ModelFilesTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::string Problem() {
    const auto model = ReadModelFolder(folder_);
    EXPECT_TRUE(absl::IsInvalidArgument(model.status())) << model.status();
    return std::string(model.status().message());
  }

  const fs::path folder_;
};

TEST_F(ModelFilesTest, WhatAModelConsistsOf) {
  for (const char* name :
       {"config.json", "model.safetensors", "model-00001-of-00002.safetensors",
        "model.safetensors.index.json", "tokenizer.json", "merges.txt",
        "tokenizer.model", "preprocessor_config.json", "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja"}) {
    EXPECT_TRUE(IsModelFile(name)) << name;
  }
}

// Whatever else lies in a folder, or passes for a file of it, is left alone.
TEST_F(ModelFilesTest, WhatItDoesNot) {
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

TEST_F(ModelFilesTest, AFolderWithWeights) {
  Write("model.safetensors", Safetensors(kHeader, 12));
  const auto model = ReadModelFolder(folder_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->weights, ElementsAre("model.safetensors"));
  EXPECT_EQ(model->config.hidden_size, 16);
}

TEST_F(ModelFilesTest, WithoutWeightsItIsForTrainingFromScratch) {
  const auto model = ReadModelFolder(folder_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->weights, IsEmpty());
}

TEST_F(ModelFilesTest, WithoutConfigItIsNoModel) {
  fs::remove(folder_ / "config.json");
  EXPECT_TRUE(absl::IsNotFound(ReadModelFolder(folder_).status()));
}

TEST_F(ModelFilesTest, AnotherArchitecture) {
  Write("config.json", R"({"architectures": ["T5Model"], "model_type": "t5"})");
  EXPECT_TRUE(absl::IsUnimplemented(ReadModelFolder(folder_).status()));
}

TEST_F(ModelFilesTest, WeightsThatAreNotWhole) {
  Write("model.safetensors", Safetensors(kHeader, 11));
  EXPECT_THAT(Problem(), HasSubstr("model.safetensors: its tensors take 12 "
                                   "bytes and it has 11 for them"));
  Write("model.safetensors", Safetensors(kHeader, 13));
  EXPECT_THAT(Problem(), HasSubstr("not whole"));
  Write("model.safetensors", Safetensors(kHeader, 12).substr(0, 40));
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
  Write("model.safetensors", "abc");
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
  Write("model.safetensors", "");
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
}

TEST_F(ModelFilesTest, APointerOfGitLfs) {
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
        std::string(R"({"a":{"data_offsets":"x"}})")}) {
    Write("model.safetensors", Safetensors(header, 12));
    EXPECT_THAT(Problem(), HasSubstr("is no safetensors file"))
        << header.substr(0, 50);
  }
  std::string length(8, '\xff');
  Write("model.safetensors", length + "{}");
  EXPECT_THAT(Problem(), HasSubstr("ends too early"));
}

TEST_F(ModelFilesTest, AFifoHoldsNobody) {
  ASSERT_EQ(mkfifo((folder_ / "model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(Problem(), HasSubstr("no regular file"));
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
    EXPECT_THAT(Problem(), HasSubstr("is no file's name")) << shard;
  }
  for (const char* index :
       {"[]", "{}", "{", R"({"weight_map": {}})", R"({"weight_map": []})"}) {
    Write("model.safetensors.index.json", index);
    EXPECT_THAT(Problem(), HasSubstr("weight_map")) << index;
  }
}

// What the folders that jobs may read do not have stays closed, by a link too.
TEST_F(ModelFilesTest, OpensNothingOutside) {
  const fs::path outside = folder_.string() + "-outside";
  fs::create_directories(outside);
  std::ofstream(outside / "w") << "secret";
  fs::create_symlink(outside / "w", folder_ / "model.safetensors");
  const base::ReadRoots within({folder_});
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ReadModelFolder(folder_, &within).status()));
  fs::remove_all(outside);
}

}  // namespace
}  // namespace mpsd::spec
