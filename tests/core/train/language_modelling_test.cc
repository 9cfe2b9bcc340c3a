// SPDX-License-Identifier: Apache-2.0
#include "core/train/language_modelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/train/class_job.h"
#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

using testing_support::RecordingObserver;

using LanguageModellingTest = LmParts;

TEST_F(LanguageModellingTest, ABatchWithoutLabelsHasNoLoss) {
  data::Batch batch = MakeBatch({4}, 4);
  batch.labels.assign(batch.labels.size(), base::kIgnoreIndex);
  const std::vector<data::Batch> batches = {batch, MakeBatch({4}, 4)};
  const StepInputs inputs = pipeline_.Inputs(batches, *device_);
  EXPECT_FALSE(pipeline_.Loss(inputs.batches[0]).sum.defined());
  EXPECT_TRUE(pipeline_.Loss(inputs.batches[1]).sum.defined());
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
    job = {{"model", testing_support::Golden("smollm", "model").string()},
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
  auto result = job.Train("out");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(*result->eval_loss_after, *result->eval_loss_before);
  EXPECT_EQ(result->metrics.at(0).first, "perplexity");
  EXPECT_NEAR(result->metrics.at(0).second, std::exp(*result->eval_loss_after),
              1e-9);
  job.job["model"] = "out/model";
  RecordingObserver observer;
  ASSERT_TRUE(job.Train("again", observer).ok());
  EXPECT_NEAR(observer.evals[0].eval_loss, *result->eval_loss_after, 1e-6);
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
    auto result = job.Train("out");
    ASSERT_TRUE(result.ok()) << result.status();
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

TEST(FullLanguageModelTest, ASplitServesLanguageModelsToo) {
  FullLanguageModelJob job("full_lm_split");
  job.job["dataset"] = {{"train", "train.jsonl"}, {"validation_split", 0.25}};
  ASSERT_TRUE(job.Train("out").ok());
  EXPECT_EQ(job.Json("out/run.json")["eval"]["rows"], 3);
}

}  // namespace
}  // namespace mpsd::train
