// SPDX-License-Identifier: Apache-2.0
#include "core/lora/lora.h"

#include <fstream>
#include <set>

#include "core/base/file.h"
#include "core/lora/merge.h"
#include "core/lora/peft_folder.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"
#include "tests/core/status_matchers.h"

// Structure; the numbers are held against PEFT in tests/core/parity.

namespace mpsd::lora {
namespace {

spec::LoraSpec Spec(std::vector<std::string> targets) {
  spec::LoraSpec spec;
  spec.r = 4;
  spec.lora_alpha = 8;
  spec.target_modules = std::move(targets);
  return spec;
}

model::DecoderInputs Inputs() {
  at::manual_seed(1);
  return {
      at::randint(96, {1, 6}, at::kLong), at::arange(6).unsqueeze(0), {}, {}};
}

TEST(LoraTest, AFreshAdapterChangesNothing) {
  auto model = LoadGolden("llama2");
  at::NoGradGuard no_grad;
  const at::Tensor before = model->Logits(Inputs());
  auto adapter = *Adapter::Attach(*model, Spec({"q_proj", "v_proj"}), at::kCPU);
  EXPECT_TRUE(at::equal(model->Logits(Inputs()), before));
  adapter->parameters().groups()[0].values.add_(0.1);
  EXPECT_FALSE(at::allclose(model->Logits(Inputs()), before));
  adapter.reset();
  EXPECT_TRUE(at::equal(model->Logits(Inputs()), before));
}

TEST(LoraTest, ModulesToSaveAreTrainedInFull) {
  auto model = LoadGolden("llama3");  // tied embeddings
  spec::LoraSpec spec = Spec({"q_proj"});
  spec.modules_to_save = {"lm_head"};
  auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
  const optim::Parameter* head =
      adapter->parameters().Find("base_model.model.lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_TRUE(model->head().weight.is_same(head->value));
  // The embedding it was tied to stays frozen.
  EXPECT_FALSE(model->NamedWeights()[0].tensor->requires_grad());
}

// PEFT cannot load "all-linear" in addition to a head of several linears.
TEST(AdapterTest, AllLinearOfAClassifierIsWrittenByName) {
  const auto folder = FreshFolder("lora_written");
  auto model = LoadGolden("smollm");
  spec::LoraSpec spec;
  spec.target_modules = spec::LoraSpec::AllLinear{};
  for (const char* task_type : {"CAUSAL_LM", "SEQ_CLS", ""}) {
    auto adapter =
        *Adapter::Attach(*model, spec, at::kCPU, {"base", task_type});
    ASSERT_TRUE(adapter->SaveResult(folder).ok());
    auto read = *ReadPeftConfig(folder);
    const bool by_name =
        std::holds_alternative<std::vector<std::string>>(read.target_modules);
    EXPECT_EQ(by_name, std::string(task_type) != "CAUSAL_LM") << task_type;
  }
}

TEST(GoldenAdapterTest, PeftsFolderComesBackTensorForTensor) {
  for (const char* name : {"llama2", "llama3", "mistral", "mistral_window",
                           "qwen2", "qwen3", "smollm"}) {
    SCOPED_TRACE(name);
    const auto theirs = Golden(name, "adapter");
    auto spec = ReadPeftConfig(theirs).value();
    auto model = LoadGolden(name);
    auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
    ASSERT_THAT(LoadPeftWeights(theirs, adapter->parameters()), IsOk());
    const auto ours = FreshFolder(std::string("peft_") + name);
    ASSERT_TRUE(
        SavePeftFolder(ours, spec, {"base"}, adapter->parameters()).ok());
    auto a = *tensorfile::SafetensorsFile::Open(theirs /
                                                "adapter_model.safetensors");
    auto b =
        *tensorfile::SafetensorsFile::Open(ours / "adapter_model.safetensors");
    ASSERT_EQ(a->entries().size(), b->entries().size());
    for (const auto& [tensor, entry] : a->entries()) {
      EXPECT_TRUE(at::equal(*a->Load(tensor), *b->Load(tensor))) << tensor;
    }
    EXPECT_EQ(*ReadPeftConfig(ours), spec);
  }
}

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
  const char* json;
  absl::StatusCode code;
  const char* message;
};

TEST(PeftFolderTest, BadConfigsAreRefusedWithTheirReasons) {
  const BadConfig cases[] = {
      {"{", absl::StatusCode::kInvalidArgument, "expected a JSON object"},
      {R"({"fine_tune_type": "lora", "lora_parameters": {"rank": 8}})",
       absl::StatusCode::kUnimplemented, "mlx_lm.fuse"},
      {R"({"peft_type": "IA3"})", absl::StatusCode::kUnimplemented, "IA3"},
      {R"({"peft_type": "LORA", "use_dora": true})",
       absl::StatusCode::kUnimplemented, "use_dora"},
      {R"({"peft_type": "LORA", "bias": "all"})",
       absl::StatusCode::kUnimplemented, "bias"},
      {R"({"peft_type": "LORA", "r": "eight"})",
       absl::StatusCode::kInvalidArgument, ":1: r: expected an integer"},
      {R"({"peft_type": "LORA", "r": -4})", absl::StatusCode::kInvalidArgument,
       "r: expected an integer >= 1 and <= 65536, found -4"},
      {R"({"peft_type": "LORA", "rank_pattern": {"q_proj": "x"}})",
       absl::StatusCode::kInvalidArgument,
       "rank_pattern[\"q_proj\"]: expected"},
      {R"({"peft_type": "LORA", "lora_dropout": 1.5})",
       absl::StatusCode::kInvalidArgument, "lora_dropout: expected"},
      {R"({"peft_type": "LORA", "field_of_tomorrow": 3})",
       absl::StatusCode::kUnimplemented, "field_of_tomorrow is 3"},
      {R"({"peft_type": "LORA", "exclude_modules": ["up_proj"]})",
       absl::StatusCode::kUnimplemented, "in target_modules instead"}};
  for (const BadConfig& c : cases) {
    const auto folder = FreshFolder("peft_bad");
    std::ofstream(folder / "adapter_config.json") << c.json;
    EXPECT_THAT(ReadPeftConfig(folder), Fails(c.code, c.message));
  }
}

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

TEST(PeftFieldsTest, AreThoseOfPeftsLoraConfigAndTheArithmeticIsHeld) {
  std::vector<std::string> ours;
  for (const PeftField& field : PeftFields()) ours.push_back(field.name);
  EXPECT_THAT(ours,
              testing::UnorderedElementsAreArray(
                  InstalledConfig()["fields"].get<std::vector<std::string>>()));
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
      EXPECT_THAT(ReadWith(field.name, on),
                  Fails(absl::StatusCode::kUnimplemented, field.name))
          << field.name;
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
    EXPECT_THAT(status, Says(value.dump()));
  }
  EXPECT_TRUE(met.contains("\"pissa\"") && met.contains("true"));
  EXPECT_THAT(ReadWith("init_lora_weights", "pissa_niter_16"),
              Says("path_initial_model_for_weight_conversion"));
  EXPECT_THAT(ReadWith("init_lora_weights", "loftq"), Says("merge_and_unload"));
  EXPECT_FALSE(ReadWith("init_lora_weights", "lora_ga").ok());
  EXPECT_FALSE(ReadWith("init_lora_weights", "of_tomorrow").ok());
  EXPECT_FALSE(ReadWith("init_lora_weights", 3).ok());
  EXPECT_TRUE(ReadWith("init_lora_weights", "Gaussian").ok());
}

// PEFT saves the frozen weight of an adapted lm_head next to A and B.
TEST(PeftFolderTest, TheBaseLayerOfAnAdaptedHeadIsTheModelsOwn) {
  const auto model = LoadGolden("llama2");
  spec::LoraSpec spec;
  spec.target_modules = std::vector<std::string>{"lm_head"};
  const auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
  const auto folder = FreshFolder("peft_base_layer");
  ASSERT_THAT(adapter->SaveCheckpoint(folder), IsOk());
  tensorfile::NamedTensors tensors;
  for (const auto& p : adapter->parameters().parameters()) {
    tensors.emplace_back(p.name, p.value);
  }
  const at::Tensor& own = model->head().weight;
  tensors.emplace_back(NameOfBaseLayer("lm_head"), own.to(at::kBFloat16));
  const auto write = [&] {
    return tensorfile::WriteSafetensors(folder / "adapter_model.safetensors",
                                        tensors);
  };
  ASSERT_THAT(write(), IsOk());
  EXPECT_THAT(adapter->LoadCheckpoint(folder), IsOk());
  const fs::path base = Golden("llama2", "model");
  EXPECT_THAT(merge::AdaptedModel::Open(base, folder).status(), IsOk());
  tensors.back().second = own + 1;
  ASSERT_THAT(write(), IsOk());
  EXPECT_THAT(adapter->LoadCheckpoint(folder),
              Fails(absl::StatusCode::kInvalidArgument, "vocabulary"));
  EXPECT_FALSE(merge::AdaptedModel::Open(base, folder).ok());
}

TEST(PeftFolderTest, AMissingModuleIsNamedWithTheWayToSaveIt) {
  const auto folder = FreshFolder("peft_no_head");
  const auto model = LoadGolden("llama2");
  spec::LoraSpec spec;
  spec.target_modules = std::vector<std::string>{"q_proj"};
  ASSERT_THAT(
      (*Adapter::Attach(*model, spec, at::kCPU))->SaveCheckpoint(folder),
      IsOk());
  spec.modules_to_save = {"lm_head"};
  const auto with_head = *Adapter::Attach(*model, spec, at::kCPU);
  EXPECT_THAT(with_head->LoadCheckpoint(folder), Says("in modules_to_save"));
}

TEST(PeftFolderTest, AnotherModelsAdapterIsRefused) {
  auto model = LoadGolden("llama2");
  auto spec = *ReadPeftConfig(Golden("llama3", "adapter"));
  auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
  EXPECT_THAT(
      LoadPeftWeights(Golden("llama3", "adapter"), adapter->parameters()),
      Fails(absl::StatusCode::kInvalidArgument, "has shape"));
  spec.target_modules = std::vector<std::string>{"q_proj"};
  auto narrow = LoadGolden("llama3");
  auto fewer = *Adapter::Attach(*narrow, spec, at::kCPU);
  EXPECT_THAT(LoadPeftWeights(Golden("llama3", "adapter"), fewer->parameters()),
              Says("belongs to no adapted module"));
}

}  // namespace
}  // namespace mpsd::lora
