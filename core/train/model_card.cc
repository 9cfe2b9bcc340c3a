// SPDX-License-Identifier: Apache-2.0
#include "core/train/model_card.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/full/model_card.h"
#include "core/spec/generation.h"

namespace mpsd::train {
namespace {

using Json = nlohmann::ordered_json;

// Fields of job.json; one that is absent, false or 0 is left out.
constexpr char kRecipe[] =
    "task fine_tune_type preference.trainer preference.loss_type "
    "preference.beta preference.label_smoothing lora.r lora.lora_alpha "
    "lora.lora_dropout "
    "lora.use_rslora lora.target_modules lora.modules_to_save "
    "quantization_config.load_in_4bit quantization_config.load_in_8bit "
    "training.learning_rate training.lr_scheduler_type training.warmup_steps "
    "training.warmup_ratio training.weight_decay "
    "training.per_device_train_batch_size training.gradient_accumulation_steps "
    "training.max_length training.packing training.assistant_only_loss "
    "training.completion_only_loss";

// A row of a table; cells may have any text.
void AddRow(std::string& table, const std::vector<std::string>& cells) {
  for (const std::string& cell : cells) {
    absl::StrAppend(&table, "| ",
                    absl::StrReplaceAll(cell, {{"|", "\\|"}, {"\n", " "}}),
                    " ");
  }
  table += "|\n";
}

std::string DataOf(const Manifest& m) {
  std::string table =
      "## Data\n\n| data | rows | SHA-256 |\n| --- | --- | --- |\n";
  AddRow(table, {"training", absl::StrCat(m.train_stats.rows), m.train_sha256});
  if (m.eval_sha256.empty()) return table;
  AddRow(table, {"evaluation", absl::StrCat(m.eval_stats.rows), m.eval_sha256});
  return table;
}

std::string RecipeOf(const Manifest& m, const RunResult& result) {
  std::string table = "\n## Recipe\n\n| field | value |\n| --- | --- |\n";
  Json spec = Json::parse(spec::ToJson(m.spec));
  if (spec["fine_tune_type"] != "lora") spec.erase("lora");
  if (!m.spec.preference.enabled()) spec.erase("preference");
  spec["training"]["max_length"] = m.max_length;
  for (const auto& field : absl::StrSplit(kRecipe, ' ')) {
    const Json::json_pointer place(
        absl::StrCat("/", absl::StrReplaceAll(field, {{".", "/"}})));
    const Json value = spec.contains(place) ? spec[place] : Json();
    if (value.empty() || value == false || value == 0) continue;
    AddRow(table,
           {absl::StrCat("`", field, "`"),
            value.is_string() ? value.get<std::string>() : value.dump()});
  }
  AddRow(table, {"`training.seed`", absl::StrCat(m.spec.training.seed)});
  AddRow(table, {"number type", m.spec.training.bf16 ? "bfloat16" : "float32"});
  AddRow(table, {"optimizer steps", absl::StrCat(result.steps)});
  if (m.result_step != result.steps) {
    AddRow(table, {"step of the result", absl::StrCat(m.result_step)});
  }
  return table;
}

std::string ResultsOf(const RunResult& result) {
  std::string table = "\n## Results\n\n| metric | value |\n| --- | --- |\n";
  const auto add = [&](const std::string& name,
                       const std::optional<double>& value) {
    if (value) AddRow(table, {name, absl::StrFormat("%.6g", *value)});
  };
  add("mean training loss", result.train_loss);
  add("evaluation loss before training", result.eval_loss_before);
  add("evaluation loss", result.eval_loss_after);
  for (const auto& [name, value] : result.metrics) add(name, value);
  return table;
}

// An indented block of code: no text ends it.
std::string Block(const std::string& title, const std::string& text) {
  return absl::StrCat("\n", title, ":\n\n    ",
                      absl::StrReplaceAll(text, {{"\n", "\n    "}}), "\n");
}

std::string SamplesOf(const Prepared& run) {
  const auto log = base::ReadFile(run.folder->path() / kSamplesFile);
  if (!log.ok()) return "";
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripSuffix(*log, "\n"), '\n');
  std::string text = "\n## What it says\n";
  const auto& prompts = run.loaded.spec->training.sample_prompts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    text += Block("Prompt", spec::ShownText(prompts[i]));
    for (const auto& [title, line] :
         {std::pair("Before training", lines.front()),
          std::pair("After", lines.back())}) {
      const Json answers =
          base::ParseTree<Json>(line).value("completions", Json::array());
      if (i < answers.size()) text += Block(title, answers[i]);
    }
  }
  return text;
}

}  // namespace

std::string ModelCardOf(const Prepared& run, const RunResult& result) {
  const Manifest& m = run.manifest;
  full::ModelCard card;
  card.task = m.spec.task;
  card.library = result.output_kind == report::OutputKind::kAdapter
                     ? full::CardLibrary::kPeft
                     : full::CardLibrary::kTransformers;
  card.base = spec::BaseModelOf(m.spec, m.model_folder).name;
  card.license = full::LicenseOf(m.model_folder);
  card.tag = Json::parse(spec::ToJson(m.spec))["fine_tune_type"];
  const data::ClassLabels* labels = run.loaded.pipeline->class_labels();
  if (labels != nullptr) card.labels = labels->outputs();
  card.body = absl::StrCat(DataOf(m), RecipeOf(m, result), ResultsOf(result),
                           SamplesOf(run));
  return full::CardText(card);
}

}  // namespace mpsd::train
