// SPDX-License-Identifier: Apache-2.0
#include "core/spec/classification.h"

namespace mpsd::spec {
namespace {

constexpr auto kSingle = ProblemType::kSingleLabel;

// The column names of the files that the GLUE benchmark distributes, and those
// of run_glue.py's task_to_keys where they differ (Hugging Face renamed
// columns).
const std::vector<GlueTask>& GlueTasks() {
  static const std::vector<GlueTask>& glue_tasks = *new std::vector<GlueTask>{
      {"cola",
       "sentence",
       "",
       "label",
       3,
       1,
       kSingle,
       {"unacceptable", "acceptable"},
       "matthews_correlation"},
      {"sst2",
       "sentence",
       "",
       "label",
       -1,
       -1,
       kSingle,
       {"negative", "positive"},
       "accuracy"},
      {"mrpc",
       "#1 String",
       "#2 String",
       "Quality",
       -1,
       -1,
       kSingle,
       {"not_equivalent", "equivalent"},
       "f1"},
      {"stsb",
       "sentence1",
       "sentence2",
       "score",
       -1,
       -1,
       ProblemType::kRegression,
       {},
       "pearson"},
      {"qqp",
       "question1",
       "question2",
       "is_duplicate",
       -1,
       -1,
       kSingle,
       {"not_duplicate", "duplicate"},
       "f1"},
      {"mnli",
       "sentence1",
       "sentence2",
       "gold_label",
       -1,
       -1,
       kSingle,
       {"entailment", "neutral", "contradiction"},
       "accuracy"},
      {"qnli",
       "question",
       "sentence",
       "label",
       -1,
       -1,
       kSingle,
       {"entailment", "not_entailment"},
       "accuracy"},
      {"rte",
       "sentence1",
       "sentence2",
       "label",
       -1,
       -1,
       kSingle,
       {"entailment", "not_entailment"},
       "accuracy"},
      {"wnli",
       "sentence1",
       "sentence2",
       "label",
       -1,
       -1,
       kSingle,
       {"not_entailment", "entailment"},
       "accuracy"},
  };
  return glue_tasks;
}

}  // namespace

const GlueTask* FindGlueTask(std::string_view name) {
  for (const GlueTask& glue_task : GlueTasks()) {
    if (glue_task.name == name) return &glue_task;
  }
  return nullptr;
}

std::vector<std::string_view> GlueTaskNames() {
  std::vector<std::string_view> names;
  for (const GlueTask& glue_task : GlueTasks()) names.push_back(glue_task.name);
  return names;
}

std::string_view ToString(ProblemType type) {
  for (const auto& [word, meaning] : kProblemWords) {
    if (meaning == type) return word;
  }
  return "";
}

}  // namespace mpsd::spec
