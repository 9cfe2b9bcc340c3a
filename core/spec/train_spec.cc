// SPDX-License-Identifier: Apache-2.0
#include "core/spec/train_spec.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "absl/strings/ascii.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/fields.h"
#include "core/spec/json_node.h"
#include "core/spec/model_folder.h"
#include "core/spec/python_regex.h"
#include "core/spec/train_spec_fields.h"

namespace mpsd::spec {
namespace fs = std::filesystem;

bool IsJobId(std::string_view text) {
  return text.size() == limits::kWholeId &&
         text.find_first_not_of(kJobIdLetters) == std::string_view::npos;
}

bool NamesResult(std::string_view path) {
  return path.starts_with(kNamedResult);
}

std::string JobNamedBy(std::string_view path) {
  if (!NamesResult(path)) return "";
  const std::string_view id =
      path.substr(std::string_view(kNamedResult).size());
  return IsJobId(id) ? std::string(id) : "";
}

namespace {

// Adds to `findings` the faults of combinations of fields that are valid
// individually. `root` is the JSON that `spec` was read from.
class Rules {
 public:
  Rules(const TrainSpec& spec, const JsonNode& root, Findings& findings)
      : spec_(spec), root_(root), findings_(findings) {}

  void Run() {
    CheckName();
    CheckModelId();
    CheckNamedResult("model", spec_.model);
    CheckNamedResult("adapter", spec_.adapter);
    CheckEvaluation();
    CheckLossMasks();
    CheckWarmup();
    CheckFineTuning();
    CheckTaskFields();
    CheckRowColumns();
    CheckPreference();
    CheckClassification();
    CheckAugmentation();
    CheckQuantization();
    CheckSampling();
    CheckLists();
    CheckTargets();
    CheckPatterns(spec_.lora.rank_pattern, "rank_pattern");
    CheckPatterns(spec_.lora.alpha_pattern, "alpha_pattern");
  }

 private:
  void Fault(std::string_view section, std::string_view name,
             std::string_view message) {
    const JsonNode* node = root_.Find(section);
    const JsonNode* field = node == nullptr ? nullptr : node->Find(name);
    const int line = field != nullptr  ? field->line
                     : node != nullptr ? node->line
                                       : root_.line;
    findings_.Add(line, base::Cat(section, ".", name), message);
  }

  void CheckName() {
    const std::string& name = spec_.name;
    if (name.size() > limits::kNameBytes) {
      FaultAt("name", base::Cat("has ", name.size(), " bytes, at most ",
                                limits::kNameBytes, " are allowed"));
    } else if (!base::IsPrintable(name)) {
      FaultAt("name",
              base::Cat("'", base::Quotable(name),
                        "' has a line break, another control character or a "
                        "mark that turns the direction of writing; leave it "
                        "out"));
    }
  }

  void CheckModelId() {
    if (spec_.model_id.empty() || Names(spec_.model_id, spec_.model)) return;
    FaultAt(
        "model_id",
        base::Cat("\"", spec_.model_id, "\" has no snapshot ", spec_.model,
                  "; leave it out: mpsd sets it for a model asked for by its "
                  "id"));
  }

  void CheckNamedResult(std::string_view field, const std::string& path) {
    if (!NamesResult(path) || !JobNamedBy(path).empty()) return;
    FaultAt(
        field,
        base::Cat("expected \"", kNamedResult, "\" and the ", limits::kWholeId,
                  " characters of a job's id (`mpsctl list` shows them), "
                  "found \"",
                  path, "\"; a folder of such a name is \"./", path, "\""));
  }

  void CheckEvaluation() {
    const DatasetSpec& d = spec_.dataset;
    if (!d.eval.empty() && d.validation_split > 0) {
      Fault("dataset", "validation_split",
            "cannot be combined with dataset.eval; leave one of them out");
    }
    if (d.evaluates()) return;
    constexpr std::string_view kNeedsEval =
        "needs evaluations, and there is no dataset.eval; name its files, set "
        "dataset.validation_split, or leave this out";
    const TrainingSpec& t = spec_.training;
    for (const auto& [name, set] :
         {std::pair("eval_steps", t.eval_steps > 0),
          std::pair("load_best_model_at_end", t.load_best_model_at_end),
          std::pair("early_stopping_patience",
                    t.early_stopping_patience.has_value())}) {
      if (set) Fault("training", name, kNeedsEval);
    }
  }

  void CheckWarmup() {
    const double steps = spec_.training.warmup_steps;
    if (steps < 1 || steps == std::floor(steps)) return;
    Fault("training", "warmup_steps",
          base::Cat("expected an integer, or a share of all steps below 1, "
                    "found ",
                    steps));
  }

  // Sections are compared with their defaults: ToJson writes all of them.
  void CheckFineTuning() {
    const bool lora = spec_.fine_tune_type == FineTuneType::kLora;
    if (!lora && spec_.lora != LoraSpec()) {
      FaultAt("lora", "is for fine_tune_type \"lora\"; leave it out");
    }
    if (!lora && !spec_.adapter.empty()) {
      FaultAt("adapter", "is for fine_tune_type \"lora\"; leave it out");
    }
    if (spec_.fine_tune_type == FineTuneType::kHead &&
        spec_.task == Task::kCausalLm) {
      FaultAt("fine_tune_type",
              "\"head\" is for SEQ_CLS and IMAGE_CLS; expected \"lora\" or "
              "\"full\"");
    }
    if (spec_.from_scratch && spec_.fine_tune_type != FineTuneType::kFull) {
      FaultAt("from_scratch",
              "needs fine_tune_type \"full\": an adapter or a head on random "
              "weights learns nothing");
    }
  }

  // Fields that another task's job must not set.
  void CheckTaskFields() {
    const DatasetSpec& d = spec_.dataset;
    const TrainingSpec& t = spec_.training;
    const bool lm = spec_.task == Task::kCausalLm;
    const bool text = spec_.task == Task::kSeqCls;
    struct Row {
      bool right_task, set;
      const char *section, *name, *tasks;
    };
    const bool image = !lm && !text;
    const Row rows[] = {
        {text, !d.task_name.empty(), "dataset", "task_name", "SEQ_CLS"},
        {lm || text, !d.text_columns.empty(), "dataset", "text_columns",
         "CAUSAL_LM and SEQ_CLS"},
        {!lm, !d.label_column.empty(), "dataset", "label_column",
         "SEQ_CLS and IMAGE_CLS"},
        {!lm, !d.predict.empty(), "dataset", "predict",
         "SEQ_CLS and IMAGE_CLS"},
        {image, !d.image_column.empty(), "dataset", "image_column",
         "IMAGE_CLS"},
        {lm, t.packing, "training", "packing", "CAUSAL_LM"},
        {lm, !t.sample_prompts.empty(), "training", "sample_prompts",
         "CAUSAL_LM"},
        {lm, t.padding_free.has_value(), "training", "padding_free",
         "CAUSAL_LM"},
        {lm, t.assistant_only_loss.has_value(), "training",
         "assistant_only_loss", "CAUSAL_LM"},
        {lm, t.completion_only_loss.has_value(), "training",
         "completion_only_loss", "CAUSAL_LM"},
        {lm, !t.chat_template_path.empty(), "training", "chat_template_path",
         "CAUSAL_LM"},
        {lm, !t.eos_token.empty(), "training", "eos_token", "CAUSAL_LM"}};
    for (const Row& row : rows) {
      if (row.set && !row.right_task) {
        IsFor(row.section, row.name, row.tasks);
      }
    }
    if (lm && spec_.classification != ClassificationSpec()) {
      FaultAt("classification", "is for SEQ_CLS and IMAGE_CLS; leave it out");
    }
    if (spec_.task != Task::kImageCls &&
        spec_.augmentation != AugmentationSpec()) {
      FaultAt("augmentation", "is for IMAGE_CLS; leave it out");
    }
    if (d.text_columns.size() > (lm ? 1 : 2)) {
      Fault("dataset", "text_columns",
            base::Cat(lm ? "a language model's text is in one column, found "
                         : "expected one or two columns, found ",
                      d.text_columns.size()));
    }
  }

  // Several fields can decide how to read a language model's rows: at most one
  // may be set.
  void CheckRowColumns() {
    const DatasetSpec& d = spec_.dataset;
    const std::tuple<const char*, bool, int> columns[] = {
        {"messages_column", !d.messages_column.empty(), 0},
        {"prompt_column", !d.prompt_column.empty(), 1},
        {"completion_column", !d.completion_column.empty(), 1},
        {"text_columns", !d.text_columns.empty(), 2},
        {"format", !d.format.empty(), 3}};
    const char* first = nullptr;
    int kind = 0;
    for (const auto& [name, set, its_kind] : columns) {
      if (!set) continue;
      if (spec_.task != Task::kCausalLm) {
        if (its_kind != 2) IsFor("dataset", name, "CAUSAL_LM");
        continue;
      }
      if (first != nullptr && its_kind != kind) {
        Fault(
            "dataset", name,
            base::Cat("cannot be combined with ", first,
                      ": each says what the rows are; leave one of them out"));
      }
      if (first == nullptr) {
        kind = its_kind;
        first = name;
      }
    }
  }

  void CheckPreference() {
    const PreferenceSpec& p = spec_.preference;
    if (!p.enabled()) {
      if (p != PreferenceSpec()) {
        FaultAt("preference", "needs \"trainer\": \"dpo\"");
      }
      return;
    }
    const DatasetSpec& d = spec_.dataset;
    const TrainingSpec& t = spec_.training;
    constexpr std::string_view kColumns =
        "preferences are in the columns prompt, chosen and rejected; leave it "
        "out";
    constexpr std::string_view kLabels =
        "the labels of preferences are their answers; leave it out";
    constexpr std::string_view kPairs =
        "is for texts: both answers of a pair are rows of one batch; leave it "
        "out";
    const std::tuple<bool, const char*, const char*, std::string_view> rows[] =
        {{p.label_smoothing >= 0.5, "preference", "label_smoothing",
          "expected a number below 0.5"},
         {p.label_smoothing > 0 && p.loss_type != PreferenceLoss::kRobust,
          "preference", "label_smoothing",
          "needs \"loss_type\": \"robust\", as in TRL"},
         {!d.messages_column.empty(), "dataset", "messages_column", kColumns},
         {!d.prompt_column.empty(), "dataset", "prompt_column", kColumns},
         {!d.completion_column.empty(), "dataset", "completion_column",
          kColumns},
         {!d.text_columns.empty(), "dataset", "text_columns", kColumns},
         {!d.format.empty(), "dataset", "format", kColumns},
         {t.completion_only_loss.has_value(), "training",
          "completion_only_loss", kLabels},
         {t.assistant_only_loss.has_value(), "training", "assistant_only_loss",
          kLabels},
         {t.packing, "training", "packing", kPairs},
         {t.padding_free.value_or(false), "training", "padding_free", kPairs},
         {spec_.lora.lora_dropout.value_or(0) > 0, "lora", "lora_dropout",
          "preferences are learnt without dropout (TRL's disable_dropout); "
          "leave it out"}};
    for (const auto& [wrong, section, name, message] : rows) {
      if (wrong) Fault(section, name, message);
    }
    if (spec_.task != Task::kCausalLm) {
      FaultAt("preference", "is for CAUSAL_LM; leave it out");
    }
    if (spec_.fine_tune_type != FineTuneType::kLora) {
      FaultAt("fine_tune_type",
              "preferences are learnt by adapters; expected \"lora\"");
    }
  }

  void CheckClassification() {
    const ClassificationSpec& c = spec_.classification;
    const std::set<std::string> different(c.label_names.begin(),
                                          c.label_names.end());
    if (different.size() != c.label_names.size()) {
      Fault("classification", "label_names", "the same name appears twice");
    }
    if (c.label_names.size() == 1 &&
        c.problem_type != ProblemType::kRegression &&
        c.problem_type != ProblemType::kMultiLabel) {
      Fault(
          "classification", "label_names",
          "a single label leaves nothing to distinguish; expected two or more");
    }
    if (c.class_weights.empty()) return;
    if (c.problem_type == ProblemType::kRegression) {
      Fault("classification", "class_weights",
            "a regression has no classes; leave it out");
    } else if (!c.label_names.empty() &&
               c.label_names.size() != c.class_weights.size()) {
      Fault("classification", "class_weights",
            base::Cat("expected one for each of the ", c.label_names.size(),
                      " label_names, found ", c.class_weights.size()));
    }
  }

  void CheckAugmentation() {
    const AugmentationSpec& a = spec_.augmentation;
    if (a.crop_scale_min > a.crop_scale_max || a.crop_scale_max == 0) {
      Fault("augmentation", "crop_scale_min",
            "expected 0 <= crop_scale_min <= crop_scale_max, above 0");
    }
    if (a.crop_ratio_min > a.crop_ratio_max) {
      Fault("augmentation", "crop_ratio_min",
            "expected crop_ratio_min <= crop_ratio_max");
    }
  }

  void CheckQuantization() {
    const QuantizationSpec& q = spec_.quantization_config;
    constexpr std::string_view kSection = "quantization_config";
    if (q.load_in_4bit && q.load_in_8bit) {
      Fault(kSection, "load_in_8bit",
            "cannot be combined with load_in_4bit; leave one of them out");
    }
    if (!q.load_in_4bit && q.bnb_4bit_use_double_quant) {
      Fault(kSection, "bnb_4bit_use_double_quant", "needs load_in_4bit");
    }
    if (!q.enabled() && !q.llm_int8_skip_modules.empty()) {
      Fault(kSection, "llm_int8_skip_modules",
            "needs load_in_4bit or load_in_8bit");
    }
    const std::string_view dtype = spec_.training.bf16 ? "bfloat16" : "float32";
    if (!q.bnb_4bit_compute_dtype.empty() &&
        q.bnb_4bit_compute_dtype != dtype) {
      Fault(kSection, "bnb_4bit_compute_dtype",
            base::Cat(
                "with training.bf16 ", spec_.training.bf16 ? "true" : "false",
                " the job computes in ", dtype, "; set one to the other"));
    }
    if (q.enabled() && spec_.fine_tune_type != FineTuneType::kLora) {
      FaultAt(kSection,
              "is for fine_tune_type \"lora\": quantized weights cannot be "
              "trained; leave it out");
    }
  }

  void CheckSampling() {
    const TrainingSpec& t = spec_.training;
    if (t.sample_prompts.empty() && t.sample_steps > 0) {
      Fault("training", "sample_steps",
            "needs sample_prompts; add them, or leave this out");
    }
    if (spec_.training.train_sampling_strategy == "group_by_length" &&
        spec_.training.packing) {
      Fault("training", "train_sampling_strategy",
            "\"group_by_length\" reduces padding, and packed rows have none; "
            "leave one of them out");
    }
  }

  void IsFor(std::string_view section, std::string_view name,
             std::string_view tasks) {
    Fault(section, name, base::Cat("is for task ", tasks, "; leave it out"));
  }

  void FaultAt(std::string_view name, std::string_view message) {
    const JsonNode* node = root_.Find(name);
    findings_.Add(node == nullptr ? root_.line : node->line, name, message);
  }

  void CheckLossMasks() {
    const TrainingSpec& t = spec_.training;
    if (t.assistant_only_loss.value_or(false) &&
        t.completion_only_loss.value_or(false)) {
      Fault("training", "completion_only_loss",
            "contradicts assistant_only_loss: the first is for "
            "prompt/completion rows, the second for messages; set one of "
            "them");
    }
  }

  // Lists whose entries are compared with each module of the model.
  void CheckLists() {
    CheckCount("quantization_config", "llm_int8_skip_modules",
               spec_.quantization_config.llm_int8_skip_modules.size(),
               limits::kModuleNames);
    CheckCount("lora", "modules_to_save", spec_.lora.modules_to_save.size(),
               limits::kModuleNames);
  }

  void CheckCount(std::string_view section, std::string_view name, size_t count,
                  size_t max) {
    if (count <= max) return;
    Fault(section, name,
          base::Cat("has ", count, " entries, at most ", max, " are allowed"));
  }

  void CheckTargets() {
    const LoraSpec& lora = spec_.lora;
    const auto* regex = std::get_if<std::string>(&lora.target_modules);
    const bool all =
        std::holds_alternative<LoraSpec::AllLinear>(lora.target_modules);
    if (lora.layers_to_transform && (regex != nullptr || all)) {
      Fault("lora", "layers_to_transform",
            "cannot be used when target_modules is a string (as in PEFT); give "
            "target_modules as a list of names");
    }
    if (regex == nullptr) return;
    const auto compiled = PythonRegex::Compile(*regex);
    if (!compiled.ok()) {
      Fault("lora", "target_modules", std::string(compiled.status().message()));
    }
  }

  template <typename V>
  void CheckPatterns(const PatternMap<V>& patterns, std::string_view name) {
    for (const auto& [pattern, value] : patterns) {
      const auto compiled = PythonRegex::Compile(pattern);
      if (!compiled.ok())
        Fault("lora", name, std::string(compiled.status().message()));
    }
  }

  const TrainSpec& spec_;
  const JsonNode& root_;
  Findings& findings_;
};

}  // namespace

absl::StatusOr<TrainSpec> ParseTrainSpec(std::string_view json,
                                         std::string_view origin) {
  ASSIGN_OR_RETURN(JsonNode root, ParseJson(json, origin));
  Findings findings;
  if (root.kind != JsonNode::Kind::kObject) {
    findings.Add(root.line, "",
                 "expected an object with \"model\" and \"dataset\", found " +
                     Describe(root));
    return findings.ToStatus(origin);
  }
  TrainSpec spec;
  VisitSpec(FieldReader(&root, "", findings), spec);
  if (findings.empty()) Rules(spec, root, findings).Run();
  if (!findings.empty()) return findings.ToStatus(origin);
  return spec;
}

absl::StatusOr<TrainSpec> ParseNewSpec(std::string_view json,
                                       std::string_view origin) {
  ASSIGN_OR_RETURN(TrainSpec spec, ParseTrainSpec(json, origin));
  if (spec.name.empty() || !base::IsBlank(spec.name)) return spec;
  ASSIGN_OR_RETURN(const JsonNode root, ParseJson(json, origin));
  Findings findings;
  findings.Add(root.Find("name")->line, "name",
               "has only spaces or invisible characters; choose another, or "
               "leave the field out");
  return findings.ToStatus(origin);
}

absl::StatusOr<LoraSpec> ParseLora(std::string_view json,
                                   std::string_view origin) {
  ASSIGN_OR_RETURN(JsonNode root, ParseJson(json, origin));
  LoraSpec lora;
  FieldWriter::Json known;
  VisitLora(FieldWriter(known), lora);
  std::erase_if(root.members, [&](const JsonNode& member) {
    return member.kind == JsonNode::Kind::kNull || !known.contains(member.name);
  });
  Findings findings;
  VisitLora(FieldReader(&root, "", findings), lora);
  if (!findings.empty()) return findings.ToStatus(origin);
  return lora;
}

std::string ToJson(const TrainSpec& spec) {
  TrainSpec copy = spec;
  FieldWriter::Json root;
  VisitSpec(FieldWriter(root), copy);
  return root.dump(-1, ' ', false, FieldWriter::Json::error_handler_t::replace);
}

TrainSpec ResolvePaths(TrainSpec spec, const std::string& base_dir) {
  std::error_code error;
  const fs::path base = fs::absolute(base_dir, error);
  const bool is_id = !fs::is_directory(base / spec.model, error);
  VisitPaths(spec, [&](const char*, std::string& path) {
    if (path.empty() || NamesResult(path)) return;
    if (is_id && &path == &spec.model) return;
    path = (base / path).lexically_normal().string();
  });
  return spec;
}

namespace {

std::string_view TasksOf(Family family) {
  switch (family) {
    case Family::kEncoder:
      return "SEQ_CLS";
    case Family::kVision:
      return "IMAGE_CLS";
    case Family::kDecoder:
      break;
  }
  return "CAUSAL_LM and SEQ_CLS";
}

bool Serves(Family family, Task task) {
  switch (task) {
    case Task::kCausalLm:
      return family == Family::kDecoder;
    case Task::kSeqCls:
      return family != Family::kVision;
    case Task::kImageCls:
      return family == Family::kVision;
  }
  return false;
}

// Beyond max_position_embeddings "dynamic" has other frequencies for each
// length of a batch, which mpsd does not support.
absl::Status CheckLength(const TrainSpec& spec, const ModelConfig& config) {
  const int64_t limit = config.max_position_embeddings;
  if (!config.dynamic_rope || spec.task != Task::kCausalLm ||
      spec.training.max_length <= limit) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(base::Cat(
      "training.max_length: ", spec.training.max_length,
      " is more than the max_position_embeddings of the model (", limit,
      "), beyond which its rope type \"dynamic\" is not supported; set "
      "max_length to ",
      limit, " at most"));
}

}  // namespace

absl::Status CheckTask(const TrainSpec& spec, const ModelConfig& config) {
  if (!Serves(config.family, spec.task)) {
    return absl::InvalidArgumentError(base::Cat(
        "task: a model of type \"", config.model_type, "\" is for ",
        TasksOf(config.family), "; set task, or choose another model"));
  }
  if (config.model_type == "granite" && spec.task == Task::kSeqCls) {
    return absl::UnimplementedError(
        "task: Transformers has no Granite for SEQ_CLS; choose another model");
  }
  RETURN_IF_ERROR(CheckQuantization(spec, config));
  RETURN_IF_ERROR(CheckLength(spec, config));
  if (spec.task != Task::kCausalLm || spec.from_scratch) {
    return absl::OkStatus();
  }
  for (const std::string& name : config.architectures) {
    if (name.ends_with("ForCausalLM")) return absl::OkStatus();
  }
  if (config.architectures.empty()) return absl::OkStatus();
  return absl::UnimplementedError(base::Cat(
      "model: CAUSAL_LM takes causal language models (…ForCausalLM); the "
      "architecture of this one is \"",
      config.architectures[0], "\""));
}

namespace {

struct UnreadKind {
  std::string_view extension, first_bytes, kind;
  std::string_view reader;  // of pandas; "": the file is to be unpacked
};
constexpr UnreadKind kUnreadKinds[] = {
    {".parquet", "PAR1", "Parquet", "read_parquet"},
    {".arrow", "ARROW1", "Arrow", "read_feather"},
    {".xlsx", "", "an Excel file", "read_excel"},
    {".gz", "\x1F\x8B", "compressed by gzip", ""},
    {".zip", "PK\x03\x04", "a ZIP archive", ""}};

}  // namespace

absl::Status CheckKindIsRead(const std::string& name, std::string_view bytes) {
  const std::filesystem::path file(name);
  const std::string extension =
      absl::AsciiStrToLower(file.extension().string());
  const auto* const kind =
      std::find_if(std::begin(kUnreadKinds), std::end(kUnreadKinds),
                   [&](const UnreadKind& unread) {
                     return extension == unread.extension ||
                            (!unread.first_bytes.empty() &&
                             bytes.starts_with(unread.first_bytes));
                   });
  if (kind == std::end(kUnreadKinds)) return absl::OkStatus();
  std::string advice = "unpack it, and name the files that it holds";
  if (!kind->reader.empty()) {
    advice = base::Cat("convert it to JSON Lines, e.g. with pandas: pandas.",
                       kind->reader, "(\"", file.filename().string(),
                       "\").to_json(\"", file.stem().string(),
                       ".jsonl\", orient=\"records\", lines=True)");
  }
  return absl::InvalidArgumentError(base::Cat(
      name, " is ", kind->kind, ", which mpsd does not read: ", advice));
}

}  // namespace mpsd::spec
