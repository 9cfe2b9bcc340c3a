// SPDX-License-Identifier: Apache-2.0
#include "core/lora/merge.h"

#include <ATen/ATen.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/lora/peft_folder.h"
#include "core/model/decoder.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

// Equality with PEFT's merge_and_unload, tensor for tensor, is shown live
// (tests/live/parity/merge.py).

namespace mpsd::merge {
namespace {

fs::path GoldenFolder(const std::string& name, const std::string& part) {
  return fs::path(MPSD_TEST_SOURCE_DIR) / "tests" / "golden" / name / part;
}

// Golden model `name` with its adapter, into a new folder.
MergeOptions GoldenMerge(const std::string& name) {
  MergeOptions options;
  options.model = GoldenFolder(name, "model");
  options.adapter = GoldenFolder(name, "adapter");
  options.out = FreshFolder("merge_" + name) / "merged";
  return options;
}

at::Tensor Weight(const fs::path& folder, const std::string& name) {
  const auto weights = *tensorfile::Weights::Open(folder);
  const auto* entry = weights->Find(name);
  EXPECT_NE(entry, nullptr) << name;
  if (entry == nullptr) return at::zeros({1});
  return *weights->Load(name, entry->shape, at::kCPU, entry->dtype);
}

class GoldenMergeTest : public testing::TestWithParam<const char*> {};

// Golden logits are those that PEFT computes with base and adapter.
TEST_P(GoldenMergeTest, TheMergedModelHasTheAdaptersLogits) {
  MergeOptions options = GoldenMerge(GetParam());
  options.dtype = at::kFloat;  // one is stored in bfloat16
  const auto report = Merge(options).value();
  EXPECT_GT(report.merged_weights, 0);
  EXPECT_LT(report.logit_error, 1e-5);
  const auto golden = *tensorfile::SafetensorsFile::Open(
      GoldenFolder(GetParam(), "golden.safetensors"));
  const auto config = *spec::ReadModelConfig(options.out.string());
  EXPECT_EQ(report.compared_layers, config.num_hidden_layers);
  const auto weights = *tensorfile::Weights::Open(options.out);
  const auto model =
      *model::Decoder::Load(*weights, config, at::kCPU, at::kFloat);
  at::NoGradGuard no_grad;
  const at::Tensor ids = *golden->Load("input_ids");
  const at::Tensor positions = at::arange(ids.size(1)).expand(ids.sizes());
  const at::Tensor real =
      golden->Load("attention_mask")->to(at::kBool).unsqueeze(-1);
  const at::Tensor logits =
      model->Logits({ids, positions.contiguous(), {}}) * real;
  const at::Tensor expected = *golden->Load("logits") * real;
  EXPECT_LT((logits - expected).norm().item<double>(),
            1e-5 * expected.norm().item<double>());
}

INSTANTIATE_TEST_SUITE_P(All, GoldenMergeTest,
                         testing::Values("llama2", "llama3", "mistral", "qwen2",
                                         "qwen3", "smollm"));

class ClassifierMergeTest : public testing::TestWithParam<const char*> {};

TEST_P(ClassifierMergeTest, MergesAndComparesClassifiers) {
  const MergeOptions options = GoldenMerge(GetParam());
  const auto report = Merge(options).value();
  EXPECT_GT(report.replaced_weights, 0);
  EXPECT_LT(report.logit_error, 1e-5);
  const auto config =
      nlohmann::json::parse(*base::ReadFile(options.out / "config.json"));
  EXPECT_THAT(config["architectures"][0].get<std::string>(),
              HasSubstr("Classification"));
  EXPECT_GE(config["id2label"].size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, ClassifierMergeTest,
                         testing::Values("bert", "roberta", "electra",
                                         "distilbert", "llama_classes", "vit"));

TEST(MergeTest, AddsScaledBTimesAToItsWeightAndReplacesSavedModules) {
  const MergeOptions options = GoldenMerge("llama2");
  ASSERT_TRUE(Merge(options).ok());
  const auto adapted = *AdaptedModel::Open(options.model, options.adapter);
  const spec::TargetMatch& target = adapted.targets()[0];
  const LowRank change = *adapted.WeightChange(target);
  const std::string name = target.name + ".weight";
  EXPECT_TRUE(at::equal(Weight(options.out, name),
                        Weight(options.model, name) +
                            at::matmul(change.b, change.a) * change.scaling));
  EXPECT_FALSE(
      at::equal(Weight(options.out, name), Weight(options.model, name)));
  const std::string other = "model.layers.0.mlp.up_proj.weight";
  EXPECT_TRUE(
      at::equal(Weight(options.out, other), Weight(options.model, other)));
  EXPECT_TRUE(at::equal(Weight(options.out, "lm_head.weight"),
                        *adapted.LoadSaved("lm_head.weight", at::kFloat)));
}

// A copy of the model in which config.json says that head and embedding are
// tied, and the file has them under other names.
fs::path TiedModel(const fs::path& from,
                   const std::map<std::string, std::string>& renamed) {
  const fs::path folder = FreshFolder("merge_tied");
  auto config = nlohmann::json::parse(*base::ReadFile(from / "config.json"));
  config["tie_word_embeddings"] = true;
  std::ofstream(folder / "config.json") << config;
  const auto weights = *tensorfile::Weights::Open(from);
  tensorfile::NamedTensors tensors;
  for (const std::string& name : weights->names()) {
    const auto other = renamed.find(name);
    tensors.emplace_back(other == renamed.end() ? name : other->second,
                         Weight(from, name));
  }
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  return folder;
}

TEST(MergeTest, AHeadThatIsNotTheEmbeddingIsNotTied) {
  MergeOptions options = GoldenMerge("llama2");
  options.model = TiedModel(options.model, {});
  const auto report = Merge(options).value();
  EXPECT_LT(report.logit_error, 1e-5);
  const auto config = *spec::ReadModelConfig(options.out.string());
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(at::equal(Weight(options.out, "lm_head.weight"),
                         Weight(options.out, "model.embed_tokens.weight")));
}

TEST(MergeTest, AHeadAloneIsTheEmbeddingToo) {
  MergeOptions options = GoldenMerge("llama3");
  const fs::path whole = options.model;
  options.model =
      TiedModel(whole, {{"model.embed_tokens.weight", "lm_head.weight"}});
  const auto report = Merge(options).value();
  EXPECT_LT(report.logit_error, 1e-5);
  EXPECT_TRUE(at::equal(Weight(options.out, "model.embed_tokens.weight"),
                        Weight(whole, "model.embed_tokens.weight")));
  const auto weights = *tensorfile::Weights::Open(options.out);
  EXPECT_FALSE(weights->Contains("lm_head.weight"));
  EXPECT_TRUE(spec::ReadModelConfig(options.out.string())->tie_word_embeddings);
}

TEST(MergeTest, WritesShardsNoLargerThanAskedFor) {
  MergeOptions options = GoldenMerge("smollm");
  options.max_shard_bytes = 20'000;
  const auto report = Merge(options).value();
  EXPECT_GT(report.shards, 1);
  EXPECT_TRUE(fs::exists(options.out / "model.safetensors.index.json"));
  EXPECT_TRUE(fs::exists(options.out / "tokenizer.json"));
}

TEST(MergeTest, RoundsToTheDtypeAskedFor) {
  MergeOptions options = GoldenMerge("qwen2");
  options.dtype = at::kBFloat16;
  const auto report = Merge(options).value();
  EXPECT_EQ(Weight(options.out, "model.norm.weight").scalar_type(),
            at::kBFloat16);
  EXPECT_GT(report.logit_error, 0);
  EXPECT_THAT(*base::ReadFile(options.out / "config.json"),
              HasSubstr("\"bfloat16\""));
}

TEST(MergeTest, AnAdapterOfAnotherModelIsRefused) {
  MergeOptions options = GoldenMerge("llama2");
  options.adapter = GoldenFolder("qwen3", "adapter");
  EXPECT_TRUE(absl::IsInvalidArgument(Merge(options).status()));
  EXPECT_FALSE(fs::exists(options.out));
}

TEST(MergeTest, ABrokenAdapterIsFoundAndNoFileIsLeft) {
  MergeOptions options = GoldenMerge("mistral");
  const fs::path adapter = FreshFolder("broken_adapter");
  fs::copy(options.adapter, adapter,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const auto file = *tensorfile::SafetensorsFile::Open(
      options.adapter / "adapter_model.safetensors");
  tensorfile::NamedTensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    tensors.emplace_back(name, *file->Load(name));
  }
  tensors.front().second.view({-1})[0] = NAN;
  ASSERT_TRUE(tensorfile::WriteSafetensors(
                  adapter / "adapter_model.safetensors", tensors)
                  .ok());
  options.adapter = adapter;
  EXPECT_TRUE(absl::IsDataLoss(Merge(options).status()));
  EXPECT_FALSE(fs::exists(options.out));
}

TEST(MergeTest, TheModelItselfIsNoPlaceForTheResult) {
  MergeOptions options = GoldenMerge("llama2");
  options.out = options.model;
  EXPECT_THAT(Merge(options), Says("is the model itself"));
}

absl::StatusOr<AdaptedModel> Golden(const std::string& name) {
  return AdaptedModel::Open(GoldenFolder(name, "model"),
                            GoldenFolder(name, "adapter"));
}

TEST(AdaptedModelTest, TheAdaptersHeadSaysHowManyLabelsThereAre) {
  const auto adapted = Golden("llama2").value();
  EXPECT_EQ(adapted.task(), spec::Task::kCausalLm);
  EXPECT_EQ(adapted.config().num_labels, 0);
  EXPECT_NE(adapted.FindSaved("lm_head.weight"), nullptr);
  EXPECT_EQ(adapted.FindSaved("model.norm.weight"), nullptr);
  const auto classes = Golden("llama_classes").value();
  EXPECT_EQ(classes.task(), spec::Task::kSeqCls);
  EXPECT_EQ(classes.config().num_labels,
            classes.FindSaved("score.weight")->shape[0]);
  EXPECT_EQ(Golden("vit")->task(), spec::Task::kImageCls);
}

TEST(AdaptedModelTest, LabelsAreThoseBesideTheAdaptersWeights) {
  const fs::path adapter = FreshFolder("adapter");
  fs::copy(GoldenFolder("bert", "adapter"), adapter);
  const auto open = [&] {
    return AdaptedModel::Open(GoldenFolder("bert", "model"), adapter);
  };
  EXPECT_EQ(open()->LabelNames().size(), 3u);
  constexpr char kProblem[] = "multi_label_classification";
  ASSERT_TRUE(
      lora::SaveLabels(adapter, {kProblem, {"bad", "fair", "good"}}).ok());
  EXPECT_THAT(open()->LabelNames(), ElementsAre("bad", "fair", "good"));
  EXPECT_EQ(open()->ProblemType(), kProblem);
  ASSERT_TRUE(lora::SaveLabels(adapter, {kProblem, {"bad", "good"}}).ok());
  EXPECT_THAT(open(), Fails(absl::StatusCode::kInvalidArgument,
                            "labels.json names 2 labels and the head has 3"));
  ASSERT_TRUE(base::WriteFileAtomic(adapter / "labels.json", "{}").ok());
  EXPECT_THAT(open(), Fails(absl::StatusCode::kInvalidArgument,
                            "labels.json: expected {\"problem_type\""));
}

// Releases before labels.json.
TEST(AdaptedModelTest, AnOldAdaptersLabelsAreThoseOfItsRun) {
  const fs::path run = FreshFolder("old_run");
  constexpr char kLabels[] = R"({"labels": {"problem_type":
      "multi_label_classification", "names": ["good", "fair", "bad"]}})";
  ASSERT_TRUE(base::WriteFileAtomic(run / "run.json", kLabels).ok());
  for (const char* folder : {"adapter", "checkpoints/step-2"}) {
    fs::create_directories((run / folder).parent_path());
    fs::copy(GoldenFolder("bert", "adapter"), run / folder);
    const auto adapted =
        AdaptedModel::Open(GoldenFolder("bert", "model"), run / folder).value();
    EXPECT_THAT(adapted.LabelNames(), ElementsAre("good", "fair", "bad"));
    EXPECT_EQ(adapted.ProblemType(), "multi_label_classification");
  }
}

TEST(AdaptedModelTest, AChangedHalfOfATieAndATensorWithoutAPlaceAreRefused) {
  EXPECT_THAT(AdaptedModel::Open(GoldenFolder("llama3", "model"),
                                 GoldenFolder("llama2", "adapter")),
              Fails(absl::StatusCode::kUnimplemented, "tie_word_embeddings"));
  // Not "belongs to no adapted module": PEFT saves its base_layer.
  const fs::path head = FreshFolder("tied_head");
  fs::copy(GoldenFolder("llama3", "adapter"), head);
  auto config =
      nlohmann::json::parse(*base::ReadFile(head / "adapter_config.json"));
  config["target_modules"] = "lm_head";
  std::ofstream(head / "adapter_config.json") << config;
  EXPECT_THAT(AdaptedModel::Open(GoldenFolder("llama3", "model"), head),
              Fails(absl::StatusCode::kUnimplemented, "tie_word_embeddings"));
  const auto adapted = AdaptedModel::Open(GoldenFolder("llama2", "model"),
                                          GoldenFolder("bert", "adapter"));
  EXPECT_FALSE(adapted.ok());
}

class CompareLogitsTest : public testing::Test {
 protected:
  CompareLogitsTest() { EXPECT_TRUE(Merge(options_).ok()); }
  absl::StatusOr<Comparison> Compare(const fs::path& folder,
                                     int64_t max_bytes) {
    return CompareLogits(adapted_, folder, at::kFloat, max_bytes);
  }
  const MergeOptions options_ = GoldenMerge("llama2");
  const AdaptedModel adapted_ =
      *AdaptedModel::Open(options_.model, options_.adapter);
};

TEST_F(CompareLogitsTest, AMergedModelPassesAndTheBaseModelDoesNot) {
  const auto compared = Compare(options_.out, int64_t{1} << 30).value();
  EXPECT_EQ(compared.layers, adapted_.config().num_hidden_layers);
  EXPECT_LT(compared.error, 1e-5);
  EXPECT_EQ(Compare(options_.out, 1)->layers, 1);
  EXPECT_GT(adapted_.config().num_hidden_layers, 1);
  EXPECT_TRUE(
      absl::IsDataLoss(Compare(options_.model, int64_t{1} << 30).status()));
}

}  // namespace
}  // namespace mpsd::merge
