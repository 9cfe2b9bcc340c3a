// SPDX-License-Identifier: Apache-2.0
#include "core/spec/train_spec_rules.h"

#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

// The error of a job with these files to evaluate and further fields.
std::string Error(const std::string& eval, const std::string& fields) {
  const std::string json =
      "{\"model\": \"m\", \"dataset\": {\"train\": \"t\", "
      "\"eval\": " +
      eval + "},\n" + fields + "}";
  return std::string(ParseTrainSpec(json, "j").status().message());
}

std::string Training(const std::string& fields) {
  return "\"training\": {" + fields + "}";
}

TEST(CheckRules, EvaluationNeedsAnEvalSet) {
  for (const std::string field :
       {"\"eval_steps\": 5", "\"load_best_model_at_end\": true",
        "\"early_stopping_patience\": 2"}) {
    const std::string name = field.substr(1, field.find(':') - 2);
    EXPECT_EQ(Error("[]", Training(field)),
              "j:2: training." + name +
                  ": needs evaluations, and there is no dataset.eval; name its "
                  "files or leave this out");
  }
  EXPECT_EQ(Error("\"e\"", Training("\"eval_steps\": 5, "
                                    "\"early_stopping_patience\": 2")),
            "");
}

TEST(CheckRules, TheBestModelNeedsCheckpointsAtEvaluations) {
  const std::string best = "\"load_best_model_at_end\": true";
  EXPECT_EQ(Error("\"e\"", Training(best + ", \"eval_steps\": 10, "
                                           "\"save_steps\": 30")),
            "");
  EXPECT_EQ(Error("\"e\"", Training(best + ", \"eval_steps\": 10, "
                                           "\"save_steps\": 25")),
            "j:2: training.load_best_model_at_end: needs a checkpoint at "
            "evaluations: eval_steps > 0 and save_steps a multiple of it, "
            "found eval_steps 10 and save_steps 25");
  EXPECT_EQ(Error("\"e\"", Training(best)),
            "j:2: training.load_best_model_at_end: needs a checkpoint at "
            "evaluations: eval_steps > 0 and save_steps a multiple of it, "
            "found eval_steps 0 and save_steps 500");
}

TEST(CheckRules, OneLossMaskAtMost) {
  EXPECT_EQ(Error("[]", Training("\"assistant_only_loss\": true,\n"
                                 "\"completion_only_loss\": true")),
            "j:3: training.completion_only_loss: contradicts "
            "assistant_only_loss: the first is for prompt/completion rows, "
            "the second for messages; set one of them");
  EXPECT_EQ(Error("[]", Training("\"assistant_only_loss\": true, "
                                 "\"completion_only_loss\": false")),
            "");
}

TEST(CheckRules, LayersNeedTargetsByName) {
  const std::string expected =
      "j:2: lora.layers_to_transform: cannot be used when target_modules is a "
      "string (as in PEFT); give target_modules as a list of names";
  EXPECT_EQ(Error("[]",
                  "\"lora\": {\"target_modules\": \"all-linear\", "
                  "\"layers_to_transform\": [0]}"),
            expected);
  EXPECT_EQ(Error("[]",
                  "\"lora\": {\"target_modules\": \".*q_proj\", "
                  "\"layers_to_transform\": 0}"),
            expected);
  EXPECT_EQ(Error("[]", "\"lora\": {\"layers_to_transform\": [0]}"), "");
}

TEST(CheckRules, RegularExpressionsMustCompile) {
  EXPECT_EQ(Error("[]", "\"lora\": {\"target_modules\": \"(?<=a)q_proj\"}"),
            "j:2: lora.target_modules: the regular expression "
            "\"(?<=a)q_proj\" has the group \"(?<\", which is not supported");
  EXPECT_EQ(Error("[]", "\"lora\": {\"rank_pattern\": {\"q\\\\p\": 2}}"),
            "j:2: lora.rank_pattern: the regular expression \"q\\p\" has "
            "\"\\p\", which is not supported");
}

}  // namespace
}  // namespace mpsd::spec
