// SPDX-License-Identifier: Apache-2.0
#include "client/offline.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/app.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/spec/job_schema.h"
#include "core/spec/train_spec.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

extern char** environ;

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

struct MergeOptions {
  std::string adapter;
  std::string model;
  std::string output;
  std::string dtype;
  std::string max_shard_size;
  std::string worker;
};

// The mpsd-worker next to this program merges; mpsctl has no tensors.
fs::path DefaultWorker() {
#ifdef __APPLE__
  char path[4096];
  uint32_t size = sizeof(path);
  if (_NSGetExecutablePath(path, &size) != 0) return {};
  const fs::path program = path;
#else
  const fs::path program = "/proc/self/exe";
#endif
  std::error_code error;
  return fs::canonical(program, error).parent_path() / "mpsd-worker";
}

std::vector<std::string> WorkerCommand(const MergeOptions& options,
                                       const fs::path& worker) {
  std::vector<std::string> command = {worker.string(), "--merge",
                                      "--adapter",     options.adapter,
                                      "--out",         options.output};
  const auto add = [&command](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.insert(command.end(), {name, value});
  };
  add("--model", options.model);
  add("--dtype", options.dtype);
  add("--max-shard-size", options.max_shard_size);
  return command;
}

// Runs `command` to its end; returns the wait status, or -1 with errno. The
// command gets the default signal actions, which this program has changed.
int Run(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  errno =
      posix_spawn(&child, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (errno != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

ExitCode Merge(const MergeOptions& options, const Console& console) {
  const fs::path worker =
      options.worker.empty() ? DefaultWorker() : fs::path(options.worker);
  std::error_code error;
  if (!fs::exists(worker, error)) {
    return console.BadInput(
        absl::StrCat("there is no ", worker.string()),
        "Merging needs mpsd-worker: run it where mpsd is installed, or name "
        "the program with --worker.");
  }
  console.out << std::flush;
  const int status = Run(WorkerCommand(options, worker));
  if (status < 0) {
    return console.Fail(ExitCode::kOther,
                        absl::StrCat(worker.string(), ": ", strerror(errno)),
                        "");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ExitCode::kOk;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    return ExitCode::kBadInput;
  }
  if (WIFSIGNALED(status)) {
    return console.Fail(
        ExitCode::kOther,
        absl::StrCat("mpsd-worker died of signal ", WTERMSIG(status)), "");
  }
  return ExitCode::kOther;
}

void DeclareMerge(Command& verb, MergeOptions& options) {
  verb.add_argument("ADAPTER", options.adapter, "The PEFT folder");
  verb.add_argument("-o,--output DIR", options.output,
                    "The model folder to create, as save_pretrained would");
  verb.add_option("--model MODEL", options.model,
                  "The model's folder or id; default: the one that the\n"
                  "adapter names");
  verb.add_option("--dtype DTYPE", options.dtype,
                  "Of the result; default: the model's")
      ->check(IsMember({"float32", "bfloat16", "float16"}));
  verb.add_option("--max-shard-size SIZE", options.max_shard_size,
                  "Of a weight file; default: 5GB");
  verb.add_option("--worker PROGRAM", options.worker,
                  "The mpsd-worker to run; default: next to mpsctl");
}

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

// Which of the two commands has a flag.
enum Tool { kGlue = 1, kSft = 2, kBoth = 3 };
// kLeftOut: a job does it anyway. kRule: FillIn reads it.
enum Kind { kText, kNumber, kSwitch, kWords, kLeftOut, kRule };

constexpr std::pair<const char*, Tool> kTools[] = {
    {"run_glue.py", kGlue}, {"trl sft", kSft}, {"sft.py", kSft}};

// Flags and the section of job.json that has the field of the same meaning:
// FLAG, or FLAG=FIELD if the field has another name.
struct Row {
  Tool tool;
  const char* section;
  Kind kind;
  const char* flags;
};
constexpr Row kRows[] = {
    {kBoth, "", kText, "run_name=name model_name_or_path=model"},
    {kGlue, "dataset", kText,
     "task_name train_file=train validation_file=eval test_file=predict"},
    {kGlue, "dataset", kNumber,
     "max_train_samples max_eval_samples max_predict_samples"},
    {kGlue, "classification", kSwitch, "ignore_mismatched_sizes"},
    {kSft, "dataset", kWords, "dataset_text_field=text_columns"},
    {kSft, "training", kText, "chat_template_path eos_token"},
    {kSft, "training", kNumber, "max_length"},
    {kSft, "training", kSwitch,
     "packing padding_free assistant_only_loss completion_only_loss"},
    {kSft, "lora", kNumber, "lora_r=r lora_alpha lora_dropout"},
    {kSft, "lora", kSwitch, "use_rslora"},
    {kSft, "lora", kWords,
     "lora_target_modules=target_modules lora_modules_to_save=modules_to_save"},
    {kSft, "quantization_config", kSwitch,
     "load_in_4bit load_in_8bit "
     "use_bnb_nested_quant=bnb_4bit_use_double_quant"},
    {kBoth, "training", kNumber,
     "num_train_epochs max_steps per_device_train_batch_size "
     "per_device_eval_batch_size gradient_accumulation_steps learning_rate "
     "warmup_ratio warmup_steps weight_decay adam_beta1 adam_beta2 "
     "adam_epsilon max_grad_norm max_seq_length=max_length seed eval_steps "
     "save_steps save_total_limit logging_steps"},
    {kBoth, "training", kText, "lr_scheduler_type metric_for_best_model"},
    {kBoth, "training", kSwitch,
     "gradient_checkpointing bf16 auto_find_batch_size load_best_model_at_end "
     "greater_is_better"},
    {kGlue, "", kRule, "do_predict"},
    {kSft, "", kRule, "use_peft dataset_name dataset_config"},
    {kBoth, "", kRule,
     "do_eval eval_strategy save_strategy optim use_cpu use_mps_device"},
    {kBoth, "", kLeftOut,
     "do_train output_dir overwrite_output_dir logging_dir logging_strategy "
     "logging_first_step report_to push_to_hub hub_model_id cache_dir "
     "overwrite_cache pad_to_max_length dataloader_num_workers "
     "preprocessing_num_workers dataset_num_proc attn_implementation "
     "trust_remote_code"},
};

// The recipe for the task that a word of another command names.
constexpr std::pair<const char*, const char*> kRecipes[] = {
    {"glue", "mrpc-bert"},         {"image", "vit"},
    {"class", "issue-classifier"}, {"lora", "chat-lora-7b"},
    {"trl", "chat-lora-7b"},       {"sft", "chat-lora-7b"},
    {"clm", "chat-lora-7b"},       {"chat", "chat-lora-7b"}};

absl::Status Refuse(const std::string& what, const std::string& text) {
  std::string recipe = "README.md";
  for (const auto& [word, name] : kRecipes) {
    if (absl::AsciiStrToLower(text).find(word) == text.npos) continue;
    recipe = absl::StrCat(name, ".json");
    break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what,
                   "; `mpsctl init DATA` writes a job.json for your data, and "
                   "deploy/recipes/",
                   recipe, " is one to copy"));
}

// The words of a shell command. Nothing is expanded.
absl::StatusOr<Words> SplitWords(const std::string& line) {
  Words words;
  std::optional<std::string> word;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\'' && (c == '$' || c == '`')) {
      return absl::InvalidArgumentError(
          "$NAME, $( ) and ` ` are not expanded: write their values");
    }
    if (quote == 0 && (c == ' ' || c == '\t')) {
      if (word) words.push_back(*word);
      word.reset();
    } else if (quote == 0 ? c == '\'' || c == '"' : c == quote) {
      quote = quote == 0 ? c : 0;
      word = word.value_or("");
    } else {
      const bool escapes = quote != '\'' && c == '\\' && i + 1 < line.size();
      word = word.value_or("") + (escapes ? line[++i] : c);
    }
  }
  if (quote != 0) return absl::InvalidArgumentError("a quote is not closed");
  if (word) words.push_back(*word);
  return words;
}

class Importer {
 public:
  explicit Importer(const std::string& text) : text_(text) {}

  absl::StatusOr<Json> Run() {
    RETURN_IF_ERROR(FindFlags());
    const bool glue = tool_ == kGlue;
    job_ = {{"name", nullptr},
            {"model", nullptr},
            {"task", glue ? "SEQ_CLS" : "CAUSAL_LM"},
            {"fine_tune_type", IsOn("use_peft") ? "lora" : "full"},
            {"dataset", Json::object()},
            {"classification", Json::object()},
            {"lora", Json::object()},
            {"quantization_config", Json::object()}};
    // The tools' defaults, where a job's differ.
    job_["lora"] = {{"r", 16}, {"lora_alpha", 32}, {"lora_dropout", 0.05}};
    job_["training"] =
        glue ? Json{{"max_length", 128}}
             : Json{{"learning_rate", 2e-5}, {"gradient_checkpointing", true}};
    RETURN_IF_ERROR(ReadFlags());
    RETURN_IF_ERROR(FillIn());
    Json job;
    for (const auto& [name, value] : job_.items()) {
      if (!value.empty()) job[name] = value;
    }
    const auto spec = spec::ParseTrainSpec(job.dump(), "the job of this line");
    return spec.ok() ? absl::StatusOr<Json>(job) : spec.status();
  }
  const Words& notes() const { return notes_; }

 private:
  absl::Status FindFlags() {
    const std::string text = absl::StrReplaceAll(
        text_, {{"\\\r\n", " "}, {"\\\n", " "}, {"\r", ""}});
    for (const std::string& line : Words(absl::StrSplit(text, '\n'))) {
      for (const auto& [name, tool] : kTools) {
        const size_t at = line.find(name);
        if (at == line.npos || line.starts_with("#")) continue;
        if (line.find("torchrun") < at || line.find("accelerate") < at) {
          notes_.push_back("a job is one process, with a smaller batch");
        }
        tool_ = tool;
        const absl::StatusOr<Words> words =
            SplitWords(line.substr(at + std::string(name).size()));
        if (words.ok()) ReadWords(*words);
        return words.status();
      }
    }
    return Refuse("this is not a command line of run_glue.py or `trl sft`",
                  text_);
  }

  void ReadWords(const Words& words) {
    Words* values = nullptr;
    for (const std::string& word : words) {
      if (word.starts_with("--")) {
        const Words parts =
            absl::StrSplit(word.substr(2), absl::MaxSplits('=', 1));
        const std::string name = absl::StrReplaceAll(parts[0], {{"-", "_"}});
        values = &(flags_[name] = Words(parts.begin() + 1, parts.end()));
      } else if (values != nullptr) {
        values->push_back(word);
      }
    }
  }

  absl::Status ReadFlags() {
    Words unknown;
    for (const auto& [name, words] : flags_) unknown.push_back("--" + name);
    for (const Row& row : kRows) {
      if ((row.tool & tool_) == 0) continue;
      for (const std::string& entry : Words(absl::StrSplit(row.flags, ' '))) {
        const Words names = absl::StrSplit(entry, '=');
        const auto flag = flags_.find(names[0]);
        if (flag == flags_.end()) continue;
        std::erase(unknown, "--" + names[0]);
        if (row.kind == kLeftOut || row.kind == kRule) continue;
        ASSIGN_OR_RETURN(const Json value,
                         ValueOf(names[0], row.kind, flag->second));
        Json& section = *row.section ? job_[row.section] : job_;
        section[names.back()] = value;
      }
    }
    if (unknown.empty()) return absl::OkStatus();
    return Refuse(absl::StrCat("job.json has no field for ",
                               absl::StrJoin(unknown, ", ")),
                  text_);
  }

  absl::StatusOr<Json> ValueOf(const std::string& name, Kind kind,
                               const Words& words) const {
    const std::string text = absl::StrJoin(words, " ");
    const std::string lower = absl::AsciiStrToLower(text);
    int64_t integer = 0;
    double number = 0;
    const char* expected = "one word";
    if (kind == kSwitch) {
      if (lower.empty() || lower == "true") return Json(true);
      if (lower == "false") return Json(false);
      expected = "true or false";
    } else if (kind == kNumber) {
      if (absl::SimpleAtoi(text, &integer)) return Json(integer);
      if (absl::SimpleAtod(text, &number)) return Json(number);
      expected = "a number";
    } else if (kind == kWords && words.size() > 0) {
      return text == "all-linear" ? Json(text) : Json(words);
    } else if (words.size() == 1) {
      return Json(text);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, ": expected ", expected, ", found '", text, "'"));
  }

  // The flags that map to no single field.
  absl::Status FillIn() {
    Json& dataset = job_["dataset"];
    Json& training = job_["training"];
    if (job_["model"].is_null()) {
      return absl::InvalidArgumentError("--model_name_or_path is missing");
    }
    const std::string optim = Text("optim");
    if (!optim.empty() && optim != "adamw_hf" &&
        !optim.starts_with("adamw_torch")) {
      return Refuse("--optim: a job uses AdamW only (adamw_torch)", text_);
    }
    if (!IsOn("use_peft")) job_["lora"] = Json::object();
    const std::string strategy = Text("eval_strategy");
    const bool evaluates = (!strategy.empty() && strategy != "no") ||
                           (tool_ == kGlue && IsOn("do_eval"));
    if (tool_ == kSft && !flags_.contains("bf16")) {
      notes_.push_back("trl's default is bfloat16: add --bf16 for it");
    }
    FillInData(dataset);
    if (!evaluates) dataset.erase("eval");
    if (!IsOn("do_predict")) dataset.erase("predict");
    if (!dataset.contains("train")) {
      return absl::InvalidArgumentError("no flag names the training data");
    }
    if (!dataset.contains("eval") || strategy != "steps") {
      training.erase("eval_steps");
    } else if (!training.contains("eval_steps")) {
      training["eval_steps"] =
          training.value("logging_steps", tool_ == kGlue ? 500 : 10);
    }
    const std::string saves = Text("save_strategy");
    if (saves == "no") training["save_steps"] = 0;
    if (saves == "epoch" || saves == "best") {
      notes_.push_back("checkpoints come every training.save_steps");
    }
    if (IsOn("use_cpu")) job_["device"] = "cpu";
    if (IsOn("use_mps_device")) job_["device"] = "mps";
    return absl::OkStatus();
  }

  // A job names files where the tools fetch data from the Hub.
  void FillInData(Json& dataset) {
    const std::string task = dataset.value("task_name", "");
    const std::string name = Text("dataset_name");
    const std::string config = Text("dataset_config");
    if (!task.empty() && !dataset.contains("train")) {
      const std::string end = task == "mnli" ? "_matched.tsv" : ".tsv";
      dataset["train"] = "train.tsv";
      dataset["eval"] = "dev" + end;
      dataset["predict"] = "test" + end;
      notes_.push_back(absl::StrCat("put GLUE's train.tsv, dev", end,
                                    " and test", end, " next to job.json"));
    } else if (!name.empty()) {
      dataset["train"] = "train.jsonl";
      dataset["eval"] = "test.jsonl";
      notes_.push_back(absl::StrCat(
          "make train.jsonl and test.jsonl next to job.json: python -c \"from "
          "datasets import load_dataset; d = load_dataset('",
          name, config.empty() ? "" : "', '", config,
          "'); [d[s].to_json(s + '.jsonl') for s in d]\""));
    }
  }

  std::string Text(const std::string& name) const {
    const auto flag = flags_.find(name);
    return flag == flags_.end() ? "" : absl::StrJoin(flag->second, " ");
  }
  bool IsOn(const std::string& name) const {
    return flags_.contains(name) &&
           absl::AsciiStrToLower(Text(name)) != "false";
  }

  const std::string text_;
  Tool tool_ = kGlue;
  std::map<std::string, Words> flags_;
  Json job_ = Json::object();
  Words notes_;
};

ExitCode Import(const std::string& file, const Console& console) {
  const absl::StatusOr<std::string> text = base::ReadFile(file);
  Importer importer(text.value_or(""));
  const absl::StatusOr<Json> job = text.ok() ? importer.Run() : text.status();
  if (!job.ok()) return console.BadInput(job.status());
  for (const std::string& note : importer.notes()) {
    console.err << "note: " << Printable(note) << '\n';
  }
  console.out << job->dump(console.json ? -1 : 2, ' ', false,
                           Json::error_handler_t::replace)
              << '\n';
  return ExitCode::kOk;
}

void DeclareImport(Command& verb, std::string& file) {
  verb.add_argument("FILE", file, "A file with the command line");
}

ExitCode Schema(const bool& markdown, const Console& console) {
  if (markdown) {
    console.out << JobReference();
  } else {
    console.out << spec::JobSchema().dump(console.json ? -1 : 2) << '\n';
  }
  return ExitCode::kOk;
}

void DeclareSchema(Command& verb, bool& markdown) {
  verb.add_flag("--markdown", markdown,
                "Print the fields as Markdown tables instead");
}

std::string Code(const std::string& text) {
  return absl::StrCat("`", text, "`");
}

std::string BoundsText(const Json& schema) {
  std::vector<std::string> bounds;
  for (const auto& [keyword, sign] :
       {std::pair{"minimum", ">="}, std::pair{"exclusiveMinimum", ">"},
        std::pair{"maximum", "<="}, std::pair{"exclusiveMaximum", "<"}}) {
    if (!schema.contains(keyword)) continue;
    bounds.push_back(absl::StrCat(sign, " ", schema[keyword].dump()));
  }
  if (schema.contains("not")) {
    bounds.push_back(absl::StrCat("not ", schema["not"]["const"].dump()));
  }
  return bounds.empty() ? "" : " " + absl::StrJoin(bounds, " and ");
}

// The text for one of the types that `schema` allows.
std::string OneTypeText(const std::string& type, const Json& schema) {
  if (type == "array") {
    Json types = schema["items"]["type"];
    if (!types.is_array()) types = Json::array({types});
    const std::string named =
        absl::StrJoin(types.get<std::vector<std::string>>(), "s or ");
    return absl::StrCat("list of ", named, "s", BoundsText(schema["items"]));
  }
  if (type == "object" &&
      schema.value("additionalProperties", Json()).is_object()) {
    const Json& value = schema["additionalProperties"];
    return absl::StrCat("object of ", value["type"].get<std::string>(), "s",
                        BoundsText(value));
  }
  if (type == "integer" || type == "number") {
    return type + BoundsText(schema);
  }
  return type;
}

std::string DefaultText(const std::string& name, const Json& field,
                        const Json& parent) {
  if (field.contains("default")) return Code(field["default"].dump());
  const Json required = parent.value("required", Json::array());
  for (const Json& one : required) {
    if (one == name) return "required";
  }
  return field.contains("properties") ? "" : "absent";
}

// One row per field of `object`; a section's row links to the section's own
// table.
std::string FieldTable(const Json& object) {
  std::string rows =
      "| field | type | default | meaning |\n|---|---|---|---|\n";
  for (const auto& [name, field] : object["properties"].items()) {
    const std::string title =
        field.contains("properties")
            ? absl::StrCat("[", Code(name), "](#", name, ")")
            : Code(name);
    absl::StrAppend(&rows, "| ", title, " | ", TypeText(field), " | ",
                    DefaultText(name, field, object), " | ",
                    field["description"].get<std::string>(), " |\n");
  }
  return rows;
}

}  // namespace

std::string TypeText(const Json& schema) {
  std::vector<std::string> texts;
  if (schema.contains("enum")) {
    for (const Json& word : schema["enum"]) {
      if (word.is_string()) texts.push_back(Code(word.dump()));
    }
    return absl::StrJoin(texts, ", ");
  }
  const Json& type = schema["type"];
  const Json types = type.is_array() ? type : Json::array({type});
  for (const Json& one : types) {
    if (one == "null") continue;
    texts.push_back(OneTypeText(one.get<std::string>(), schema));
  }
  return absl::StrJoin(texts, " or ");
}

std::string JobReference() {
  const Json schema = spec::JobSchema();
  std::string text = FieldTable(schema);
  for (const auto& [name, field] : schema["properties"].items()) {
    if (!field.contains("properties")) continue;
    absl::StrAppend(&text, "\n### ", name, "\n\n",
                    field["description"].get<std::string>(), "\n\n",
                    FieldTable(field));
  }
  return text;
}

std::vector<Verb> OfflineVerbs() {
  return {
      {"merge", "Merge an adapter into the model it was trained on",
       Takes(DeclareMerge, Merge), "mpsctl merge adapter/ --output merged/",
       /*calls_daemon=*/false},
      {"import", "Make a job.json of a run_glue.py or trl sft line",
       Takes(DeclareImport, Import), "mpsctl import run.sh > job.json",
       /*calls_daemon=*/false},
      {"schema", "Print the JSON Schema of job.json, for editors",
       Takes(DeclareSchema, Schema), "mpsctl schema > job.schema.json",
       /*calls_daemon=*/false},
  };
}

}  // namespace mpsd::client
