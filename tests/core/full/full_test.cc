// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "core/base/file.h"
#include "core/full/full_model.h"
#include "core/full/model_card.h"
#include "core/full/model_folder.h"
#include "core/model/classifier.h"
#include "core/model/losses.h"
#include "core/optim/adamw.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::full {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_support::Golden;
using testing_support::IsOk;
using testing_support::LoadGolden;
using testing_support::Says;

TEST(ModelCardTest, MetadataAreQuotedAndAPathIsNone) {
  ModelCard card;
  card.base = "org/na\"me: #1\n\u00e9";
  card.license = "apache-2.0";
  card.tag = "lora";
  EXPECT_THAT(CardText(card),
              testing::StartsWith("---\n"
                                  "base_model: \"org/na\\\"me: #1\\n\\u00e9\"\n"
                                  "license: \"apache-2.0\"\n"
                                  "library_name: peft\n"
                                  "pipeline_tag: text-generation\n"
                                  "tags:\n- mpsd\n- lora\n---\n\n"));
  card.base = "/someone/tiny";  // no id, and nobody's business
  EXPECT_THAT(CardText(card), testing::Not(HasSubstr("base_model:")));
  EXPECT_THAT(CardText(card), testing::Not(HasSubstr("someone")));
  EXPECT_THAT(CardText(card), HasSubstr("# tiny, fine-tuned\n"));
}

TEST(ModelCardTest, TheLicenseIsAWordOfTheMetadata) {
  const fs::path folder = testing_support::FreshFolder("card_license");
  EXPECT_EQ(LicenseOf(folder), "");
  for (const auto& [text, license] :
       {std::pair{"---\nlicense: llama3.2\ntags:\n- x\n---\n", "llama3.2"},
        std::pair{"---\nlicense: [a: b]\n---\n", ""},
        std::pair{"---\ntags:\n- x\n---\nlicense: mit\n", ""},
        std::pair{"license: mit\n", ""}}) {
    std::ofstream(folder / "README.md") << text;
    EXPECT_EQ(LicenseOf(folder), license) << text;
  }
}

TEST(ModelCardTest, AnExportsCardSaysHowToLoadTheExport) {
  const fs::path from = testing_support::FreshFolder("card_from");
  const fs::path to = testing_support::FreshFolder("card_to");
  const auto converted = [&](CardLibrary library) {
    EXPECT_THAT(ConvertCard(from, to, library), IsOk());
    return base::ReadFile(to / "README.md").value_or("");
  };
  EXPECT_EQ(converted(CardLibrary::kMlx), "");
  std::ofstream(from / "README.md") << "# Another's\n\n## How to load it\n";
  EXPECT_EQ(converted(CardLibrary::kMlx), "");
  ModelCard card;
  card.task = spec::Task::kSeqCls;
  card.base = "org/name";
  card.tag = "lora";
  card.labels = 3;
  card.body = "library_name: peft\n\n## How to load it\n\nnot so\n";
  std::ofstream(from / "README.md") << CardText(card);
  EXPECT_THAT(CardText(card), HasSubstr("num_labels=3"));
  card.library = CardLibrary::kTransformers;
  EXPECT_EQ(converted(CardLibrary::kTransformers), CardText(card));
  card.library = CardLibrary::kGguf;
  EXPECT_EQ(converted(CardLibrary::kGguf), CardText(card));
}

std::unique_ptr<FullModel> Attach(model::Network& network,
                                  const std::string& name) {
  FullModel::Options options;
  options.model_folder = Golden(name, "model");
  return FullModel::Attach(network, options, at::kCPU).value();
}

at::Tensor Logits(model::Decoder& model) {
  at::NoGradGuard no_grad;
  const at::Tensor ids = at::arange(3, 15).view({2, 6});
  return model.Logits({ids, at::arange(6).expand({2, 6}), {}});
}

TEST(FullModelTest, AttachingChangesNoOutputAndATiedWeightIsOneParameter) {
  auto tied = LoadGolden("smollm");
  ASSERT_TRUE(tied->config().tie_word_embeddings);
  auto full = Attach(*tied, "smollm");
  EXPECT_EQ(full->parameters().element_count(),
            spec::ParameterCount(tied->config()));
  EXPECT_NE(full->parameters().Find("model.embed_tokens.weight"), nullptr);
  EXPECT_EQ(full->parameters().Find("lm_head.weight"), nullptr);
  EXPECT_TRUE(tied->head().weight.is_same(
      full->parameters().Find("model.embed_tokens.weight")->value));
  auto untied = LoadGolden("llama2");
  const at::Tensor before = Logits(*untied);
  EXPECT_EQ(Attach(*untied, "llama2")->parameters().element_count(),
            spec::ParameterCount(untied->config()));
  EXPECT_TRUE(at::equal(Logits(*untied), before));
}

TEST(FullModelTest, ACheckpointComesBackBitForBit) {
  const fs::path folder = testing_support::FreshFolder("full_checkpoint");
  auto model = LoadGolden("smollm");
  auto full = Attach(*model, "smollm");
  at::NoGradGuard no_grad;
  for (const auto& group : full->parameters().groups()) {
    at::Tensor values = group.values;
    values.add_(at::randn_like(values) * 0.01);
  }
  const at::Tensor before = Logits(*model);
  ASSERT_TRUE(full->SaveCheckpoint(folder).ok());
  auto again = LoadGolden("smollm");
  auto other = Attach(*again, "smollm");
  ASSERT_THAT(other->LoadCheckpoint(folder), IsOk());
  EXPECT_TRUE(at::equal(Logits(*again), before));
}

TEST(FullModelTest, AnotherModelsCheckpointIsRefused) {
  const fs::path folder = testing_support::FreshFolder("full_other");
  auto model = LoadGolden("llama2");
  ASSERT_TRUE(Attach(*model, "llama2")->SaveCheckpoint(folder).ok());
  auto other = LoadGolden("qwen2");
  EXPECT_FALSE(Attach(*other, "qwen2")->LoadCheckpoint(folder).ok());
}

TEST(FullModelTest, TheResultIsAModelFolder) {
  const fs::path folder = testing_support::FreshFolder("full_result");
  auto model = LoadGolden("smollm");
  auto full = Attach(*model, "smollm");
  ASSERT_THAT(full->SaveResult(folder), IsOk());
  const auto config =
      nlohmann::json::parse(*base::ReadFile(folder / "config.json"));
  EXPECT_EQ(config["architectures"][0], "LlamaForCausalLM");
  EXPECT_TRUE(fs::exists(folder / "tokenizer.json"));
  auto weights = *tensorfile::Weights::Open(folder);
  EXPECT_FALSE(weights->Contains("lm_head.weight"));  // tied
  auto read = *model::Decoder::Load({weights.get()},
                                    *spec::ReadModelConfig(folder.string()));
  EXPECT_TRUE(at::equal(Logits(*read), Logits(*model)));
}

// Counts the bytes that tensors on the CPU occupy.
class HeldBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t,
                         c10::Device) override {
    held_ += bytes;
    most = std::max(most, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t most = 0;

 private:
  int64_t held_ = 0;
};

TEST(FullModelTest, ABf16ResultIsCastOneWeightAtATime) {
  const std::string folder = Golden("llama2", "model").string();
  auto weights = *tensorfile::Weights::Open(folder);
  model::WeightSource source{weights.get(), at::kCPU, at::kBFloat16};
  auto model = *model::Decoder::Load(source, *spec::ReadModelConfig(folder));
  auto full = Attach(*model, "llama2");
  int64_t largest = 0;
  for (const auto& weight : model->NamedWeights()) {
    largest = std::max(largest, weight.tensor->numel());
  }
  const fs::path result = testing_support::FreshFolder("full_bf16");
  const auto held = std::make_shared<HeldBytes>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, held);
    ASSERT_THAT(full->SaveResult(result), IsOk());
  }
  EXPECT_GT(held->most, 0);
  EXPECT_LT(held->most, 2 * 2 * largest);
  auto read = *tensorfile::Weights::Open(result);
  const auto& head = model->head().weight;
  EXPECT_TRUE(at::equal(
      *read->Load("lm_head.weight", head.sizes(), at::kCPU, at::kBFloat16),
      head.to(at::kBFloat16)));
}

// A network in bf16 with weights drawn at random, in training.
std::unique_ptr<model::Network> DrawBf16(const std::string& name) {
  auto config = *spec::ReadModelConfig(Golden(name, "model").string());
  model::WeightSource source;
  source.dtype = at::kBFloat16;
  at::manual_seed(1);
  std::unique_ptr<model::Network> network;
  if (config.family == spec::Family::kDecoder) {
    network = *model::Decoder::Load(source, config);
  } else {
    config.num_labels = 3;
    network = *model::Classifier::Load(source, config);
  }
  network->set_training(true);
  return network;
}

// The loss of one of two micro-batches.
at::Tensor LossOf(const model::Network& network, int batch) {
  at::manual_seed(batch);
  const spec::ModelConfig& config = network.config();
  const at::Tensor ids = at::randint(3, 80, {2, 6}, at::kLong);
  if (config.family == spec::Family::kDecoder) {
    const auto& decoder = dynamic_cast<const model::Decoder&>(network);
    const model::LabelSelection labels{at::arange(5), at::arange(5), 5};
    model::DecoderInputs inputs;
    inputs.input_ids = ids;
    return model::SumCrossEntropy(decoder.Hidden(inputs), decoder.head(),
                                  labels, /*chunk=*/2);
  }
  model::ClassifierInputs inputs;
  inputs.input_ids = ids;
  inputs.lengths = at::tensor({6, 4}, at::kLong);
  const int64_t side = config.vision.image_size;
  inputs.pixels = at::randn({2, config.vision.num_channels, side, side});
  const auto& classifier = dynamic_cast<const model::Classifier&>(network);
  return model::SumClassLoss(spec::ProblemType::kSingleLabel,
                             classifier.Logits(inputs),
                             at::tensor({0, 2}, at::kLong), {});
}

// The copies give the losses of a cast of each master at each use, and its
// gradients up to bf16's rounding: of those, fewer sums are rounded.
TEST(FullModelTest, Bf16CopiesGiveTheLossesOfCastsAtEachUse) {
  for (const char* name : {"smollm", "qwen3", "bert", "distilbert", "vit"}) {
    SCOPED_TRACE(name);
    const auto network = DrawBf16(name), casting = DrawBf16(name);
    const auto full = Attach(*network, name);
    std::map<const void*, at::Tensor> leaves;  // by the tensor that is tied
    std::vector<at::Tensor> masters;
    for (const auto& w : casting->NamedWeights()) {
      at::Tensor& leaf = leaves[w.tensor->const_data_ptr()];
      if (!leaf.defined()) {
        leaf = w.tensor->to(at::kFloat).requires_grad_(true);
        masters.push_back(leaf);
      }
      *w.tensor = leaf;
    }
    for (model::Linear* l : casting->Linears())
      l->compute_in_input_dtype = true;
    full->parameters().ZeroGradients();
    for (const int batch : {1, 2}) {
      const at::Tensor loss = LossOf(*network, batch);
      const at::Tensor expected = LossOf(*casting, batch);
      EXPECT_EQ(loss.item<float>(), expected.item<float>());
      (loss * 0.3).backward();
      (expected * 0.3).backward();
    }
    const auto& parameters = full->parameters().parameters();
    ASSERT_EQ(parameters.size(), masters.size());
    double norm = 0;
    for (const at::Tensor& master : masters) {
      norm = std::hypot(norm, master.grad().norm().item<double>());
    }
    for (size_t i = 0; i < masters.size(); ++i) {
      const at::Tensor& expected = masters[i].grad();
      // Of keys' biases there is nothing but rounding.
      EXPECT_LE((parameters[i].value.grad() - expected).norm().item<double>(),
                0.02 * expected.norm().item<double>() + 1e-4 * norm)
          << parameters[i].name;
    }
    const fs::path folder = testing_support::FreshFolder("full_copies");
    ASSERT_THAT(full->SaveCheckpoint(folder), IsOk());
    const float before = LossOf(*network, 1).item<float>();
    optim::AdamW(full->parameters(), spec::TrainingSpec()).Step(1e-2);
    for (size_t i = 0; i < masters.size(); ++i) {
      masters[i].detach().copy_(parameters[i].value.detach());
    }
    const float after = LossOf(*network, 1).item<float>();
    EXPECT_NE(after, before);
    EXPECT_EQ(after, LossOf(*casting, 1).item<float>());
    ASSERT_THAT(full->LoadCheckpoint(folder), IsOk());
    EXPECT_EQ(LossOf(*network, 1).item<float>(), before);
  }
}

using nlohmann::json;

spec::ModelConfig OfType(const std::string& type) {
  spec::ModelConfig config;
  config.model_type = type;
  return config;
}

class ModelFolderTest : public testing::Test {
 protected:
  ModelFolderTest() {
    fs::create_directories(from_);
    fs::create_directories(to_);
    std::ofstream(from_ / "config.json")
        << R"({"model_type": "bert", "hidden_size": 8, "num_labels": 5,
               "architectures": ["BertForMaskedLM"], "dtype": "float16"})";
  }
  json Written(const ResultConfig& result) {
    EXPECT_THAT(WriteConfig(from_, to_, result), IsOk());
    return json::parse(*base::ReadFile(to_ / "config.json"));
  }

  const fs::path root_ = testing_support::FreshFolder("model_folder");
  const fs::path from_ = root_ / "from", to_ = root_ / "to";
  spec::ModelConfig config_ = OfType("bert");
};

TEST_F(ModelFolderTest, TheConfigSaysWhatTheResultIs) {
  config_.pad_token_id = 3;
  const json config = Written({config_,
                               spec::Task::kSeqCls,
                               {"no", "yes"},
                               "single_label_classification",
                               at::kBFloat16});
  EXPECT_EQ(config["architectures"], json({"BertForSequenceClassification"}));
  EXPECT_EQ(config["id2label"], json({{"0", "no"}, {"1", "yes"}}));
  EXPECT_EQ(config["label2id"], json({{"no", 0}, {"yes", 1}}));
  EXPECT_EQ(config["problem_type"], "single_label_classification");
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_EQ(config["pad_token_id"], 3);
  EXPECT_EQ(config["hidden_size"], 8);
  EXPECT_FALSE(config.contains("num_labels"));
  EXPECT_FALSE(config.contains("dtype"));
}

TEST_F(ModelFolderTest, ALanguageModelHasNoLabelsAndABrokenConfigIsNamed) {
  const json config =
      Written({config_, spec::Task::kCausalLm, {}, "", at::kFloat});
  EXPECT_FALSE(config.contains("id2label"));
  EXPECT_FALSE(config.contains("problem_type"));
  std::ofstream(from_ / "config.json") << "[";
  EXPECT_THAT(WriteConfig(from_, to_,
                          {config_, spec::Task::kCausalLm, {}, "", at::kFloat}),
              Says("config.json"));
}

// A head that the file did not tie stays untied in what is written.
TEST_F(ModelFolderTest, TheTieIsThatOfTheNetwork) {
  std::ofstream(from_ / "config.json") << R"({"tie_word_embeddings": true})";
  config_.family = spec::Family::kDecoder;
  const auto tie = [&](bool tied) {
    config_.tie_word_embeddings = tied;
    return Written({config_,
                    spec::Task::kCausalLm,
                    {},
                    "",
                    at::kFloat})["tie_word_embeddings"];
  };
  EXPECT_EQ(tie(true), true);
  EXPECT_EQ(tie(false), false);
  config_.family = spec::Family::kEncoder;
  EXPECT_EQ(tie(false), true) << "of its pretraining head, and as it was";
}

TEST_F(ModelFolderTest, WhatThereIsOfATokenizerIsCopied) {
  std::ofstream(from_ / "tokenizer.json") << "{}";
  std::ofstream(from_ / "vocab.txt") << "a\nb\n";
  std::ofstream(from_ / "pytorch_model.bin") << "x";
  const fs::path more = from_ / "additional_chat_templates";
  fs::create_directories(more / "deep");
  std::ofstream(more / "tool_use.jinja") << "{{ tools }}";
  std::ofstream(more / "rag.jinja") << "{{ documents }}";
  std::ofstream(more / "notes.txt") << "x";
  ASSERT_TRUE(CopyTokenizer(from_, to_).ok());
  const fs::path copied = to_ / "additional_chat_templates";
  EXPECT_EQ(*base::ReadFile(copied / "tool_use.jinja"), "{{ tools }}");
  EXPECT_EQ(*base::ReadFile(copied / "rag.jinja"), "{{ documents }}");
  EXPECT_FALSE(fs::exists(copied / "notes.txt"));
  EXPECT_FALSE(fs::exists(copied / "deep"));
  EXPECT_EQ(*base::ReadFile(to_ / "vocab.txt"), "a\nb\n");
  EXPECT_TRUE(fs::exists(to_ / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(to_ / "pytorch_model.bin"));
}

// What is copied is downloaded by the user who named the model.
TEST_F(ModelFolderTest, NothingIsCopiedThroughALinkOutOfTheFolder) {
  std::ofstream(root_ / "secret") << "{\"key\": 1}";
  fs::create_directories(from_ / "additional_chat_templates");
  for (const char* name : {"vocab.txt", "additional_chat_templates/a.jinja"}) {
    fs::create_symlink(root_ / "secret", from_ / name);
    const absl::Status s = CopyTokenizer(from_, to_);
    EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
    EXPECT_THAT(s, Says((from_ / name).string() + ": a link that"));
    EXPECT_EQ(CheckCopied(from_), s) << "before a step is made";
    EXPECT_FALSE(fs::exists(to_ / name));
    fs::remove(from_ / name);
  }
  fs::remove(from_ / "config.json");
  fs::create_symlink(root_ / "secret", from_ / "config.json");
  const absl::Status s = WriteConfig(
      from_, to_, {config_, spec::Task::kCausalLm, {}, "", at::kFloat});
  EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
  EXPECT_FALSE(fs::exists(to_ / "config.json"));
}

TEST_F(ModelFolderTest, LinksWithinTheFolderAndToAHubsBlobsAreCopied) {
  const fs::path hub = root_ / "hub/models--org--tiny";
  const fs::path snapshot = hub / "snapshots/abc";
  fs::create_directories(hub / "blobs");
  fs::create_directories(snapshot);
  std::ofstream(hub / "blobs/123") << "a\n";
  fs::create_symlink("../../blobs/123", snapshot / "vocab.txt");
  std::ofstream(snapshot / "tokenizer.json") << "{}";
  fs::create_symlink("tokenizer.json", snapshot / "added_tokens.json");
  ASSERT_TRUE(CopyTokenizer(snapshot, to_).ok());
  EXPECT_EQ(*base::ReadFile(to_ / "vocab.txt"), "a\n");
  EXPECT_EQ(*base::ReadFile(to_ / "added_tokens.json"), "{}");
  // A folder that was filled from the cache by links, itself named by one.
  fs::create_symlink(hub / "blobs/123", from_ / "merges.txt");
  fs::create_directory_symlink(from_, root_ / "name");
  ASSERT_TRUE(CopyTokenizer(root_ / "name", to_).ok());
  EXPECT_TRUE(CheckCopied(root_ / "name").ok());
  EXPECT_EQ(*base::ReadFile(to_ / "merges.txt"), "a\n");
}

}  // namespace

}  // namespace mpsd::full
