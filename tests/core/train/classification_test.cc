// SPDX-License-Identifier: Apache-2.0
#include "core/train/classification.h"

#include <cmath>

#include "tests/core/status_matchers.h"
#include "tests/core/train/train_jobs.h"

namespace mpsd::train {
namespace {

double Metric(const metrics::Values& values, const std::string& name) {
  for (const auto& [n, value] : values) {
    if (n == name) return value;
  }
  ADD_FAILURE() << "no metric " << name;
  return std::nan("");
}

TEST(ClassificationTest, ATextClassifierLearnsAndLeavesAModel) {
  TextJob job("class_text");
  job.job["dataset"]["predict"] = "eval.csv";
  RecordingObserver observer;
  auto result = job.Train("out", observer).value();
  EXPECT_EQ(result.output_kind, report::OutputKind::kModel);
  EXPECT_EQ(result.output_path, (job.path() / "out/model").string());
  EXPECT_EQ(Metric(result.metrics, "accuracy"), 1);
  EXPECT_LT(*result.eval_loss_after, *result.eval_loss_before);
  EXPECT_EQ(observer.evals.size(), 3u);
  EXPECT_EQ(observer.evals.back().label_tokens, 16);
  EXPECT_EQ(observer.steps[0].label_tokens,
            job.job["training"]["per_device_train_batch_size"]);
  EXPECT_EQ(Metric(observer.evals.back().metrics, "f1"), 1);
  const json config = job.Json("out/model/config.json");
  EXPECT_EQ(config["id2label"], json({{"0", "neg"}, {"1", "pos"}}));
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(json::parse(result.confusion_matrix)["matrix"],
            json({{8, 0}, {0, 8}}));
  EXPECT_EQ(job.Json("out/confusion_matrix.json")["labels"],
            json({"neg", "pos"}));
  EXPECT_THAT(job.Bytes("out/predictions.tsv"),
              HasSubstr("\n0\tpos\n1\tneg\n"));
  const json manifest = job.Json("out/run.json");
  EXPECT_EQ(manifest["labels"]["names"], json({"neg", "pos"}));
  EXPECT_EQ(manifest["result"]["eval_metrics"]["accuracy"], 1);
}

// What a full model's checkpoint holds is all that a run depends on.
TEST(ClassificationTest, AFullRunResumesBitForBit) {
  TextJob job("class_resume");
  job.job["training"]["gradient_accumulation_steps"] = 2;
  ASSERT_TRUE(job.Train("whole").ok());
  RecordingObserver stopped;
  stopped.stop_after = 5;
  auto half = job.Train("parts", stopped).value();
  EXPECT_EQ(half.stopped, StopRequest::kPreempt);
  RecordingObserver rest;
  ASSERT_TRUE(job.Train("parts", rest).ok());
  EXPECT_EQ(rest.steps.front().step, 6);
  EXPECT_EQ(job.Bytes("parts/model/model.safetensors"),
            job.Bytes("whole/model/model.safetensors"));
  EXPECT_EQ(job.Bytes("parts/confusion_matrix.json"),
            job.Bytes("whole/confusion_matrix.json"));
}

// That release knew neither tokens nor labels, and sorted some labels in
// another order.
TEST(ClassificationTest, AnOldCheckpointResumesWithItsOwnLabels) {
  TextJob job("class_old");
  RecordingObserver stopped;
  stopped.stop_after = 5;
  ASSERT_THAT(job.Train("out", stopped), IsOk());
  const std::string state_file = "out/checkpoints/step-5/trainer_state.json";
  auto state = nlohmann::ordered_json::parse(job.Bytes(state_file));
  for (const char* value : {"tokens.train", "tokens.eval", "labels"}) {
    EXPECT_EQ(state["fingerprint"]["values"].erase(std::string(value)), 1u)
        << value;
  }
  job.Write(state_file, state.dump());
  auto run = nlohmann::ordered_json::parse(job.Bytes("out/run.json"));
  run["labels"]["names"] = {"pos", "neg"};
  job.Write("out/run.json", run.dump());
  EXPECT_THAT(job.Train("out"), Says(R"("names":["pos","neg"]})"));
  job.job["classification"] = {{"label_names", {"pos", "neg"}}};
  RecordingObserver rest;
  ASSERT_THAT(job.Train("out", rest), IsOk());
  EXPECT_EQ(rest.steps.front().step, 6);
  EXPECT_THAT(rest.warnings(),
              testing::Contains(HasSubstr("of an earlier release")));
}

TEST(ClassificationTest, AnAdapterKeepsItsHeadAsPeftDoes) {
  TextJob job("class_lora");
  job.Pretrain();
  job.job["fine_tune_type"] = "lora";
  job.job["lora"] = {{"r", 4}};
  auto result = job.Train("out").value();
  EXPECT_EQ(result.output_kind, report::OutputKind::kAdapter);
  const json config = job.Json("out/adapter/adapter_config.json");
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["modules_to_save"], json({"classifier", "score"}));
  EXPECT_EQ(config["target_modules"], json({"query", "value"}));
  auto file = *tensorfile::SafetensorsFile::Open(
      job.path() / "out/adapter/adapter_model.safetensors");
  EXPECT_TRUE(file->entries().contains("base_model.model.classifier.weight"));
  EXPECT_TRUE(file->entries().contains(
      "base_model.model.bert.encoder.layer.0.attention.self.query.lora_A."
      "weight"));
  // And can be gone on from.
  job.job["adapter"] = "out/adapter";
  job.job.erase("lora");
  RecordingObserver observer;
  ASSERT_THAT(job.Train("again", observer), IsOk());
  EXPECT_NEAR(observer.evals.front().eval_loss, *result.eval_loss_after, 1e-6);
}

TEST(ClassificationTest, AnAdapterKeepsTheOrderOfItsLabels) {
  TextJob job("class_lora_labels");
  job.Pretrain();
  job.job["fine_tune_type"] = "lora";
  job.job["lora"] = {{"r", 4}};
  job.job["classification"] = {{"label_names", {"pos", "neg"}}};
  const auto result = job.Train("out").value();
  const std::string step =
      "out/checkpoints/step-" + std::to_string(result.checkpoint_step);
  for (const std::string& folder : {std::string("out/adapter"), step}) {
    EXPECT_EQ(job.Json(folder + "/labels.json")["names"], json({"pos", "neg"}));
  }
  // Wherever the folder is.
  fs::rename(job.path() / "out/adapter", job.path() / "copied");
  job.job["adapter"] = "copied";
  job.job.erase("lora");
  job.job.erase("classification");
  RecordingObserver observer;
  ASSERT_THAT(job.Train("again", observer), IsOk());
  EXPECT_NEAR(observer.evals.front().eval_loss, *result.eval_loss_after, 1e-6);
  EXPECT_EQ(job.Json("again/run.json")["labels"]["names"],
            json({"pos", "neg"}));
  job.job["classification"] = {{"label_names", {"neg", "pos"}}};
  EXPECT_THAT(job.Train("turned"),
              Fails(absl::StatusCode::kInvalidArgument,
                    "adapter: its head was trained for "
                    "single_label_classification of pos, neg in this order"));
}

TEST(ClassificationTest, AHeadAloneLeavesTheRestAsItWas) {
  TextJob job("class_head");
  job.Pretrain();
  job.job["fine_tune_type"] = "head";
  ASSERT_THAT(job.Train("out"), IsOk());
  auto before = *tensorfile::SafetensorsFile::Open(
      job.path() / "pretrained/model/model.safetensors");
  auto after = *tensorfile::SafetensorsFile::Open(
      job.path() / "out/model/model.safetensors");
  ASSERT_EQ(before->entries().size(), after->entries().size());
  for (const auto& [name, entry] : after->entries()) {
    const bool same = at::equal(*before->Load(name), *after->Load(name));
    EXPECT_EQ(same, !name.starts_with("classifier.")) << name;
  }
  EXPECT_EQ(job.Json("out/run.json")["trainable_parameters"], 2 * 32 + 2);
}

TEST(ClassificationTest, WeightsThatTheFileLacksAreKeptInTheAdapter) {
  TextJob job("class_fresh");
  job.Pretrain();
  // A headless file, as of MiniLM: neither classifier nor pooler.
  const fs::path model = job.path() / "pretrained/model/model.safetensors";
  auto file = *tensorfile::SafetensorsFile::Open(model);
  tensorfile::NamedTensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    if (name.starts_with("bert.pooler") || name.starts_with("classifier")) {
      continue;
    }
    tensors.emplace_back(name.substr(5), *file->Load(name));
  }
  fs::remove(model);
  ASSERT_TRUE(tensorfile::WriteSafetensors(model, tensors).ok());
  job.job["fine_tune_type"] = "lora";
  ASSERT_THAT(job.Train("out"), IsOk());
  auto adapter = *tensorfile::SafetensorsFile::Open(
      job.path() / "out/adapter/adapter_model.safetensors");
  EXPECT_TRUE(
      adapter->entries().contains("base_model.model.bert.pooler.dense.weight"));
  EXPECT_EQ(job.Json("out/run.json")["fresh_modules"],
            json({"bert.pooler.dense", "classifier"}));
}

TEST(ClassificationTest, ARegressionLearnsNumbers) {
  TextJob job("class_regression");
  std::string rows = "sentence1\tsentence2\tscore\n";
  for (int i = 0; i < 32; ++i) {
    rows += std::string(i % 4, 'x') + "a\tb\t" + std::to_string(i % 4) + ".5\n";
  }
  job.Write("scores.tsv", rows);
  job.job["dataset"] = {{"train", "scores.tsv"},
                        {"eval", "scores.tsv"},
                        {"predict", "scores.tsv"},
                        {"task_name", "stsb"}};
  job.job["training"]["max_steps"] = 150;
  auto result = job.Train("out").value();
  EXPECT_GT(Metric(result.metrics, "pearson"), 0.9);
  EXPECT_EQ(result.confusion_matrix, "");
  EXPECT_EQ(job.Json("out/model/config.json")["problem_type"], "regression");
  EXPECT_THAT(job.Bytes("out/predictions.tsv"), HasSubstr("0\t"));
}

TEST(ClassificationTest, SeveralLabelsOfOneText) {
  TextJob job("class_multi");
  std::string rows;
  for (int i = 0; i < 32; ++i) {
    json labels = json::array();
    if (i % 2 == 0) labels.push_back("even");
    if (i % 3 == 0) labels.push_back("third");
    rows += json{{"text", std::string(i % 2 == 0 ? "e " : "o ") +
                              (i % 3 == 0 ? "t" : "n")},
                 {"label", labels}}
                .dump() +
            "\n";
  }
  job.Write("rows.jsonl", rows);
  job.job["dataset"] = {{"train", "rows.jsonl"},
                        {"eval", "rows.jsonl"},
                        {"predict", "rows.jsonl"}};
  job.job["training"]["max_steps"] = 150;
  job.job["training"]["metric_for_best_model"] = "f1_micro";
  job.job["training"]["load_best_model_at_end"] = true;
  auto result = job.Train("out").value();
  EXPECT_GE(Metric(result.metrics, "f1_micro"), 0.95);
  EXPECT_THAT(job.Bytes("out/predictions.tsv"), HasSubstr("0\teven,third\n"));
}

TEST(ClassificationTest, ADecoderClassifiesByItsLastToken) {
  TextJob job("class_decoder");
  job.job["model"] = Golden("smollm", "model").string();
  job.job["from_scratch"] = false;
  job.job["fine_tune_type"] = "lora";
  job.job["lora"] = {{"target_modules", "all-linear"}};
  job.job["training"]["max_steps"] = 48;
  job.job["training"]["learning_rate"] = 1e-2;
  auto result = job.Train("out").value();
  EXPECT_GE(Metric(result.metrics, "accuracy"), 0.9);
  auto adapter = *tensorfile::SafetensorsFile::Open(
      job.path() / "out/adapter/adapter_model.safetensors");
  EXPECT_TRUE(adapter->entries().contains("base_model.model.score.weight"));
}

TEST(ClassificationTest, ClassWeightsCountAndCheckpointingChangesNoStep) {
  TextJob job("class_checkpointing");
  job.job["training"]["max_steps"] = 3;
  RecordingObserver plain, weighted, checkpointed;
  ASSERT_TRUE(job.Train("plain", plain).ok());
  job.job["classification"] = {{"class_weights", {1, 3}}};
  ASSERT_TRUE(job.Train("weighted", weighted).ok());
  EXPECT_NE(weighted.evals[0].eval_loss, plain.evals[0].eval_loss);
  job.job.erase("classification");
  job.job["training"]["gradient_checkpointing"] = true;
  ASSERT_TRUE(job.Train("checkpointed", checkpointed).ok());
  for (size_t i = 0; i < plain.steps.size(); ++i) {
    EXPECT_NEAR(plain.steps[i].loss, checkpointed.steps[i].loss, 1e-6);
  }
}

TEST(ClassificationTest, Bf16MastersAreFp32) {
  TextJob job("class_bf16");
  job.job["training"]["bf16"] = true;
  auto result = job.Train("out").value();
  EXPECT_GE(Metric(result.metrics, "accuracy"), 0.9);
  auto dtype = [&](const std::string& file) {
    return (*tensorfile::SafetensorsFile::Open(job.path() / file))
        ->entries()
        .begin()
        ->second.dtype;
  };
  EXPECT_EQ(dtype("out/checkpoints/step-24/model.safetensors"), at::kFloat);
  EXPECT_EQ(dtype("out/model/model.safetensors"), at::kBFloat16);
}

// A causal language model by all its weights: from the golden one, and resumed.
class FullLanguageModelJob : public ClassJob {
 public:
  explicit FullLanguageModelJob(const std::string& name) : ClassJob(name) {
    std::string rows;
    for (int i = 0; i < 12; ++i) {
      rows += json{{"text", "row " + std::to_string(i * i)}}.dump() + "\n";
    }
    Write("train.jsonl", rows);
    job = {{"model", Golden("smollm", "model").string()},
           {"fine_tune_type", "full"},
           {"dataset", {{"train", "train.jsonl"}, {"eval", "train.jsonl"}}},
           {"training",
            {{"max_steps", 8},
             {"per_device_train_batch_size", 4},
             {"learning_rate", 1e-3},
             {"max_length", 32}}},
           {"device", "cpu"}};
  }
};

TEST(FullLanguageModelTest, LearnsAndIsAModelThatCanBeTrainedAgain) {
  FullLanguageModelJob job("full_lm");
  auto result = job.Train("out").value();
  EXPECT_LT(*result.eval_loss_after, *result.eval_loss_before);
  EXPECT_EQ(result.metrics.at(0).first, "perplexity");
  EXPECT_NEAR(result.metrics.at(0).second, std::exp(*result.eval_loss_after),
              1e-9);
  job.job["model"] = "out/model";
  RecordingObserver observer;
  ASSERT_TRUE(job.Train("again", observer).ok());
  EXPECT_NEAR(observer.evals[0].eval_loss, *result.eval_loss_after, 1e-6);
}

TEST(FullLanguageModelTest, ResumesBitForBit) {
  FullLanguageModelJob job("full_lm_resume");
  ASSERT_TRUE(job.Train("whole").ok());
  RecordingObserver stopped;
  stopped.stop_after = 3;
  ASSERT_TRUE(job.Train("parts", stopped).ok());
  ASSERT_TRUE(job.Train("parts").ok());
  EXPECT_EQ(job.Bytes("parts/model/model.safetensors"),
            job.Bytes("whole/model/model.safetensors"));
}

// A base model gets a chat template and an end token, and keeps both.
TEST(FullLanguageModelTest, ResultsHaveTheJobsOwnChatTemplate) {
  constexpr char kTemplate[] =
      "{% for m in messages %}{{ '<|im_start|>' + m.content + eos_token }}"
      "{% endfor %}";
  for (const std::string kind : {"full", "lora"}) {
    FullLanguageModelJob job("own_template_" + kind);
    job.Write("chat.jinja", kTemplate);
    job.Write("train.jsonl",
              R"([{"chat": [{"from": "human", "value": "a row"}]}])");
    job.job["fine_tune_type"] = kind;
    job.job["dataset"]["messages_column"] = "chat";
    job.job["training"]["max_steps"] = 1;
    job.job["training"]["chat_template_path"] = "chat.jinja";
    job.job["training"]["eos_token"] = "<|endoftext|>";
    ASSERT_THAT(job.Train("out"), IsOk());
    const std::string folder =
        std::string("out/") + (kind == "full" ? "model" : "adapter");
    EXPECT_EQ(job.Bytes(folder + "/chat_template.jinja"), kTemplate);
    const json config = job.Json(folder + "/tokenizer_config.json");
    EXPECT_EQ(config["eos_token"], "<|endoftext|>");
    EXPECT_FALSE(config.contains("chat_template"));
    // "<|im_start|>", five characters of a token each, and the end token.
    EXPECT_EQ(job.Json("out/run.json")["train"]["tokens"], 7) << kind;
  }
}

}  // namespace
}  // namespace mpsd::train
