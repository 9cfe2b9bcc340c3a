// SPDX-License-Identifier: Apache-2.0
#include "core/lora/peft_folder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/base/file.h"
#include "core/tensorfile/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd::lora {
namespace {

using testing::HasSubstr;
using testing_support::FreshFolder;
using testing_support::Golden;
using testing_support::LoadGolden;

class GoldenAdapterTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenAdapterTest, PeftsFolderComesBackTensorForTensor) {
  const auto theirs = Golden(GetParam(), "adapter");
  auto spec = ReadPeftConfig(theirs);
  ASSERT_TRUE(spec.ok()) << spec.status();
  auto model = LoadGolden(GetParam());
  auto adapter = *Adapter::Attach(*model, *spec, at::kCPU);
  const absl::Status loaded = LoadPeftWeights(theirs, adapter->parameters());
  ASSERT_TRUE(loaded.ok()) << loaded;
  const auto ours = FreshFolder(std::string("peft_") + GetParam());
  ASSERT_TRUE(
      SavePeftFolder(ours, *spec, {"base"}, adapter->parameters()).ok());
  auto a =
      *tensorfile::SafetensorsFile::Open(theirs / "adapter_model.safetensors");
  auto b =
      *tensorfile::SafetensorsFile::Open(ours / "adapter_model.safetensors");
  ASSERT_EQ(a->entries().size(), b->entries().size());
  for (const auto& [name, entry] : a->entries()) {
    EXPECT_TRUE(at::equal(*a->Load(name), *b->Load(name))) << name;
  }
  EXPECT_EQ(*ReadPeftConfig(ours), *spec);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenAdapterTest,
                         testing::Values("llama2", "llama3", "mistral",
                                         "mistral_window", "qwen2", "qwen3",
                                         "smollm"));

TEST(PeftFolderTest, WritesEveryFieldPeftNeeds) {
  auto model = LoadGolden("llama2");
  spec::LoraSpec spec;
  spec.target_modules = std::vector<std::string>{"q_proj"};
  auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
  const auto folder = FreshFolder("peft_fields");
  ASSERT_TRUE(
      SavePeftFolder(folder, spec, {"org/model"}, adapter->parameters()).ok());
  const auto config =
      nlohmann::json::parse(*base::ReadFile(folder / "adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["task_type"], "CAUSAL_LM");
  EXPECT_EQ(config["base_model_name_or_path"], "org/model");
  EXPECT_EQ(config["r"], 8);
  EXPECT_TRUE(config["lora_alpha"].is_number_integer());
  EXPECT_EQ(config["inference_mode"], true);
}

struct BadConfig {
  const char* name;
  const char* json;
  absl::StatusCode code;
  const char* message;
};

class BadConfigTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, IsRefusedWithItsReason) {
  const auto folder = FreshFolder("peft_bad");
  std::ofstream(folder / "adapter_config.json") << GetParam().json;
  const absl::Status status = ReadPeftConfig(folder).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadConfigTest,
    testing::Values(
        BadConfig{"json", "{", absl::StatusCode::kInvalidArgument,
                  "expected a JSON object"},
        BadConfig{"type", R"({"peft_type": "IA3"})",
                  absl::StatusCode::kUnimplemented, "IA3"},
        BadConfig{"dora", R"({"peft_type": "LORA", "use_dora": true})",
                  absl::StatusCode::kUnimplemented, "use_dora"},
        BadConfig{"bias", R"({"peft_type": "LORA", "bias": "all"})",
                  absl::StatusCode::kUnimplemented, "bias"},
        BadConfig{"rank", R"({"peft_type": "LORA", "r": "eight"})",
                  absl::StatusCode::kInvalidArgument, "r has the wrong type"},
        BadConfig{"dropout", R"({"peft_type": "LORA", "lora_dropout": 1.5})",
                  absl::StatusCode::kInvalidArgument, "lora_dropout is 1.5"}),
    [](const auto& info) { return info.param.name; });

absl::Status ReadWith(const std::string& field, const nlohmann::json& value) {
  const auto folder = FreshFolder("peft_field");
  std::ofstream(folder / "adapter_config.json")
      << nlohmann::json{{"peft_type", "LORA"}, {field, value}};
  return ReadPeftConfig(folder).status();
}

// tests/golden/tables.py: what the installed PEFT has.
nlohmann::json InstalledConfig() {
  return nlohmann::json::parse(*base::ReadFile(
      std::string(MPSD_TEST_SOURCE_DIR) + "/tests/golden/lora_config.json"));
}

TEST(PeftFieldsTest, AreThoseOfPeftsLoraConfig) {
  std::vector<std::string> ours;
  for (const PeftField& field : PeftFields()) ours.push_back(field.name);
  EXPECT_THAT(ours,
              testing::UnorderedElementsAreArray(
                  InstalledConfig()["fields"].get<std::vector<std::string>>()));
}

TEST(PeftFieldsTest, WhatChangesTheArithmeticIsRefusedByName) {
  int refused = 0;
  for (const PeftField& field : PeftFields()) {
    if (field.use != PeftField::Use::kMustBeOff) continue;
    for (const nlohmann::json& off :
         {nlohmann::json(), nlohmann::json(false), nlohmann::json("none"),
          nlohmann::json::array(), nlohmann::json::object()}) {
      EXPECT_TRUE(ReadWith(field.name, off).ok()) << field.name << off;
    }
    for (const nlohmann::json& on :
         {nlohmann::json(true), nlohmann::json({"x"}),
          nlohmann::json({{"x", 1}})}) {
      const absl::Status status = ReadWith(field.name, on);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << field.name;
      EXPECT_THAT(std::string(status.message()), HasSubstr(field.name));
      ++refused;
    }
  }
  EXPECT_GT(refused, 40);
}

TEST(PeftFieldsTest, AnInitialisationThatChangesTheBaseIsRefused) {
  std::set<std::string> met;
  const nlohmann::json installed = InstalledConfig();
  for (const auto& init : installed["init_lora_weights"]) {
    const nlohmann::json& value = init["value"];
    const absl::Status status = ReadWith("init_lora_weights", value);
    // MiCA's B is frozen; null are those that want data to be made.
    const bool plain = init["changes_base"] == false && value != "mica";
    EXPECT_EQ(status.code(),
              plain ? absl::StatusCode::kOk : absl::StatusCode::kUnimplemented)
        << value;
    met.insert(value.dump());
    if (plain) continue;
    EXPECT_THAT(std::string(status.message()), HasSubstr(value.dump()));
  }
  EXPECT_TRUE(met.contains("\"pissa\"") && met.contains("true"));
  const absl::Status pissa = ReadWith("init_lora_weights", "pissa_niter_16");
  EXPECT_THAT(std::string(pissa.message()),
              HasSubstr("path_initial_model_for_weight_conversion"));
  EXPECT_THAT(std::string(ReadWith("init_lora_weights", "loftq").message()),
              HasSubstr("merge_and_unload"));
  EXPECT_FALSE(ReadWith("init_lora_weights", "lora_ga").ok());
  EXPECT_FALSE(ReadWith("init_lora_weights", "of_tomorrow").ok());
  EXPECT_FALSE(ReadWith("init_lora_weights", 3).ok());
  EXPECT_TRUE(ReadWith("init_lora_weights", "Gaussian").ok());
}

TEST(PeftFolderTest, AnotherModelsAdapterIsRefused) {
  auto model = LoadGolden("llama2");
  auto spec = *ReadPeftConfig(Golden("llama3", "adapter"));
  auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
  const absl::Status status =
      LoadPeftWeights(Golden("llama3", "adapter"), adapter->parameters());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has shape"));
  spec.target_modules = std::vector<std::string>{"q_proj"};
  auto narrow = LoadGolden("llama3");
  auto fewer = *Adapter::Attach(*narrow, spec, at::kCPU);
  EXPECT_THAT(std::string(LoadPeftWeights(Golden("llama3", "adapter"),
                                          fewer->parameters())
                              .message()),
              HasSubstr("belongs to no adapted module"));
}

}  // namespace
}  // namespace mpsd::lora
