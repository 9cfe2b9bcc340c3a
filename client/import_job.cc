// SPDX-License-Identifier: Apache-2.0
#include "client/import_job.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/import_rules.h"
#include "core/spec/classification.h"
#include "core/spec/field_names.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;
using Kind = FieldRule::Kind;

constexpr int kScriptMaxLength = 128;       // --max_seq_length's default
constexpr double kScriptValidation = 0.15;  // --train_val_split's default
constexpr int kDefaultEvalSteps = 500;      // --logging_steps' default

// As HfArgumentParser's string_to_bool.
std::optional<bool> BoolOf(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* yes : {"yes", "true", "t", "y", "1"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"no", "false", "f", "n", "0"}) {
    if (lower == no) return false;
  }
  return std::nullopt;
}

class Importer {
 public:
  Importer(const RunArguments& run, const PathWriter& write_path)
      : run_(run), write_path_(write_path) {}

  absl::StatusOr<ImportedJob> Run() {
    FindTask();
    Model();
    TrainingData();
    OtherData();
    Columns();
    for (const RunArgument& argument : run_.arguments) Field(argument);
    Length();
    Warmup();
    Evaluations();
    Checkpoints();
    Device();
    Rest();
    if (!fault_.ok()) return fault_;
    return Finish();
  }

 private:
  const RunArgument* Find(std::string_view name) {
    known_.emplace(name);
    for (const RunArgument& argument : run_.arguments) {
      if (argument.name == name) return &argument;
    }
    return nullptr;
  }
  bool Has(std::string_view name) { return Find(name) != nullptr; }

  // "" for one that is absent.
  std::string Text(std::string_view name) {
    const RunArgument* argument = Find(name);
    return argument == nullptr ? "" : absl::StrJoin(argument->values, " ");
  }

  bool On(std::string_view name) {
    const RunArgument* argument = Find(name);
    if (argument == nullptr) return false;
    if (argument->values.empty()) return true;
    const std::optional<bool> value = BoolOf(argument->values[0]);
    if (!value) Fault(*argument, "true or false");
    return value.value_or(false);
  }

  void Fault(const RunArgument& argument, const char* expected) {
    if (!fault_.ok()) return;
    fault_ = absl::InvalidArgumentError(
        absl::StrCat("--", argument.name, ": expected ", expected, ", found '",
                     absl::StrJoin(argument.values, " "), "'"));
  }
  void Fault(const std::string& message) {
    if (fault_.ok()) fault_ = absl::InvalidArgumentError(message);
  }
  void Note(const std::string& name, const std::string& text) {
    notes_.push_back({absl::StrCat("--", name), text});
  }

  void FindTask() {
    images_ = run_.script == "run_image_classification.py" || Has("train_dir");
    job_["name"] = nullptr;  // keeps its place
    job_["model"] = nullptr;
    job_["task"] = images_ ? "IMAGE_CLS" : "SEQ_CLS";
    job_["fine_tune_type"] = "full";
    job_["dataset"] = Json::object();
    job_["classification"] = Json::object();
    job_["training"] = Json::object();
    if (const std::string name = Text("run_name"); !name.empty()) {
      job_["name"] = name;
    }
  }

  void Model() {
    std::string model = Text("model_name_or_path");
    if (model.empty() && images_) {
      model = "google/vit-base-patch16-224-in21k";
      Note("model_name_or_path",
           absl::StrCat("not given: the script's ", model, " is written"));
    }
    if (model.empty()) {
      return Fault("--model_name_or_path: is missing; it names the model");
    }
    std::error_code error;
    const bool folder = std::filesystem::is_directory(model, error);
    job_["model"] = folder ? write_path_(model) : model;
  }

  void TrainingData() {
    Json& dataset = job_["dataset"];
    const std::string task = absl::AsciiStrToLower(Text("task_name"));
    const std::string name = Text("dataset_name");
    const std::string config = Text("dataset_config_name");
    std::string train = Text(images_ ? "train_dir" : "train_file");
    if (train.empty() && !task.empty()) {
      DownloadedTask(task);
    } else if (train.empty() && !name.empty()) {
      DownloadedSet(name, config);
    } else if (train.empty()) {
      Fault(
          absl::StrCat("no training data: ",
                       images_ ? "--train_dir" : "--task_name or --train_file",
                       " is missing"));
    } else {
      train_ = write_path_(train);
    }
    dataset["train"] = train_;
    if (!task.empty()) dataset["task_name"] = task;
    if (!On("do_train")) Note("do_train", "not given; a job always trains");
  }

  // The scripts fetch these from the Hub, a job names files.
  void DownloadedTask(const std::string& task) {
    const bool mnli = task == "mnli";
    train_ = "train.tsv";
    eval_ = mnli ? "dev_matched.tsv" : "dev.tsv";
    predict_ = mnli ? "test_matched.tsv" : "test.tsv";
    Note("task_name",
         absl::StrCat("the script downloads ", task,
                      ", a job names files: put "
                      "GLUE's ",
                      train_, ", ", eval_, " and ", predict_,
                      " beside job.json, or write their places into it"));
  }

  void DownloadedSet(const std::string& name, const std::string& config) {
    if (images_) {
      train_ = "train";
      eval_ = "validation";
      Note("dataset_name", absl::StrCat("the script downloads ", name,
                                        ", a job names files: "
                                        "save its images in train/LABEL/ and "
                                        "validation/LABEL/ beside job.json"));
      return;
    }
    train_ = "train.jsonl";
    eval_ = "validation.jsonl";
    predict_ = "test.jsonl";
    const std::string arguments =
        absl::StrCat("'", name, "'", config.empty() ? "" : ", '", config,
                     config.empty() ? "" : "'");
    Note("dataset_name",
         absl::StrCat("the script downloads it, a job names files; make them "
                      "beside job.json with: python -c \"from datasets import "
                      "load_dataset; d = load_dataset(",
                      arguments,
                      "); [d[s].to_json(s + '.jsonl') for s in d]\""));
  }

  void OtherData() {
    Json& dataset = job_["dataset"];
    const std::string validation =
        Text(images_ ? "validation_dir" : "validation_file");
    if (!validation.empty()) eval_ = write_path_(validation);
    const bool asked = On("do_eval");
    const bool evaluates = asked || Strategy() != "no";
    const std::string split = Text("train_val_split");
    if (evaluates && images_ && eval_.empty()) {
      Number(dataset, "validation_split", "train_val_split",
             split.empty() ? absl::StrCat(kScriptValidation) : split);
    } else if (evaluates && !eval_.empty()) {
      dataset["eval"] = eval_;
    } else if (!validation.empty()) {
      Note("validation_file",
           "left out: there is neither --do_eval nor an "
           "--eval_strategy");
    }
    evaluates_ =
        dataset.contains("eval") || dataset.contains("validation_split");
    const std::string test = Text("test_file");
    if (!test.empty()) predict_ = write_path_(test);
    if (On("do_predict") && !predict_.empty()) {
      dataset["predict"] = predict_;
    } else if (!test.empty()) {
      Note("test_file", "left out: there is no --do_predict");
    }
  }

  void Columns() {
    if (On("do_regression"))
      job_["classification"]["problem_type"] = "regression";
    const std::string columns = Text("text_column_names");
    if (columns.empty()) return;
    if (columns.find(',') != std::string::npos) {
      Note("text_column_names",
           "the script joins these columns to one text, which a job does not: "
           "join them in the file, or write two of them into "
           "dataset.text_columns for a pair");
    } else {
      job_["dataset"]["text_columns"] = Json::array({columns});
    }
  }

  void Field(const RunArgument& argument) {
    const FieldRule* rule = FindFieldRule(argument.name);
    if (rule == nullptr) return;
    known_.insert(argument.name);
    Json& section = job_[std::string(rule->section)];
    const std::string field(rule->field);
    const std::string value = absl::StrJoin(argument.values, " ");
    switch (rule->kind) {
      case Kind::kText:
        section[field] = value;
        return;
      case Kind::kSwitch:
        section[field] = On(argument.name);
        return;
      case Kind::kNumber:
        return Number(section, field, argument.name, value);
      case Kind::kInteger:
        return Integer(section, field, argument, value);
    }
  }

  void Number(Json& section, const std::string& field, const std::string& name,
              const std::string& text) {
    double value = 0;
    if (!absl::SimpleAtod(text, &value))
      return Fault({name, {text}}, "a number");
    section[field] = value;
  }

  void Integer(Json& section, const std::string& field,
               const RunArgument& argument, const std::string& text) {
    int64_t value = 0;
    double share = 0;
    if (absl::SimpleAtoi(text, &value)) {
      section[field] = value;
    } else if (absl::SimpleAtod(text, &share) && share > 0 && share < 1) {
      Note(argument.name, absl::StrCat("a share of all steps: write their "
                                       "number into training.",
                                       field));
    } else {
      Fault(argument, "an integer");
    }
  }

  void Length() {
    const RunArgument* length = Find("max_seq_length");
    if (images_) return;
    Json& training = job_["training"];
    if (length == nullptr) {
      training["max_length"] = kScriptMaxLength;
      Note("max_seq_length", absl::StrCat("not given: the script's ",
                                          kScriptMaxLength, " is written"));
    } else {
      Integer(training, "max_length", *length, Text("max_seq_length"));
    }
  }

  // Of Transformers 5 a share of the steps where it is below 1.
  void Warmup() {
    const RunArgument* warmup = Find("warmup_steps");
    if (warmup == nullptr) return;
    double value = 0;
    const bool share = absl::SimpleAtod(Text("warmup_steps"), &value) &&
                       value > 0 && value < 1;
    if (share) {
      job_["training"]["warmup_ratio"] = value;
    } else {
      Integer(job_["training"], "warmup_steps", *warmup, Text("warmup_steps"));
    }
  }

  std::string Strategy() {
    const std::string old = Text("evaluation_strategy");
    const std::string strategy = Text("eval_strategy");
    if (!strategy.empty()) return absl::AsciiStrToLower(strategy);
    return old.empty() ? "no" : absl::AsciiStrToLower(old);
  }

  void Evaluations() {
    const RunArgument* steps = Find("eval_steps");
    if (!evaluates_ || Strategy() != "steps") return;
    Json& training = job_["training"];
    if (steps != nullptr) {
      Integer(training, "eval_steps", *steps, Text("eval_steps"));
    } else {
      training["eval_steps"] =
          training.value("logging_steps", kDefaultEvalSteps);
    }
  }

  void Checkpoints() {
    const RunArgument* steps = Find("save_steps");
    const std::string strategy = absl::AsciiStrToLower(Text("save_strategy"));
    Json& training = job_["training"];
    if (strategy == "no") {
      training["save_steps"] = 0;
    } else if (strategy == "epoch" || strategy == "best") {
      Note("save_strategy",
           absl::StrCat(strategy,
                        ": checkpoints come every save_steps, 500 "
                        "unless job.json says another number"));
    } else if (steps != nullptr) {
      Integer(training, "save_steps", *steps, Text("save_steps"));
    }
  }

  void Device() {
    const bool cpu = On("use_cpu") | On("no_cuda");
    if (On("use_mps_device")) {
      job_["device"] = "mps";
    } else if (cpu) {
      job_["device"] = "cpu";
    }
  }

  // What no member above reads.
  void Rest() {
    for (const RunArgument& argument : run_.arguments) {
      if (known_.contains(argument.name)) continue;
      const std::string why(WhyNoEqual(argument.name));
      if (why.empty()) {
        Unknown(argument.name);
      } else if (!Off(argument)) {
        Note(argument.name, why);
      }
    }
    if (run_.launcher.size() > 1 ||
        (run_.launcher.size() == 1 &&
         run_.launcher[0].find("python") == std::string::npos)) {
      notes_.push_back({absl::StrJoin(run_.launcher, " "),
                        "not needed: a job runs in one process on one device; "
                        "more processes make for a larger batch there"});
    }
    for (const std::string& word : run_.strays) {
      notes_.push_back({word, "belongs to no argument"});
    }
  }

  // Switched off there, which it always is here.
  static bool Off(const RunArgument& argument) {
    if (argument.values.size() != 1) return false;
    const std::string value = absl::AsciiStrToLower(argument.values[0]);
    double number = 1;
    return value == "none" || !BoolOf(value).value_or(true) ||
           (absl::SimpleAtod(value, &number) && number == 0) ||
           (argument.name == "optim" && value == "adamw_torch");
  }

  void Unknown(const std::string& name) {
    std::vector<std::string_view> names = RuleNames();
    names.insert(names.end(), known_.begin(), known_.end());
    const auto nearest = spec::NearestName(name, names);
    Note(name, nearest ? absl::StrCat("is not known; was --",
                                      std::string(*nearest), " meant?")
                       : "is not known");
  }

  absl::StatusOr<ImportedJob> Finish() {
    Json job = Json::object();
    for (const auto& [name, value] : job_.items()) {
      if (!value.is_null() && !(value.is_object() && value.empty())) {
        job[name] = value;
      }
    }
    const std::string text =
        job.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    absl::StatusOr<spec::TrainSpec> spec =
        spec::ParseTrainSpec(text, "the job that these arguments make");
    if (!spec.ok()) return spec.status();
    return ImportedJob{text, std::move(notes_)};
  }

  const RunArguments& run_;
  const PathWriter& write_path_;
  bool images_ = false;
  bool evaluates_ = false;
  std::string train_, eval_, predict_;
  Json job_ = Json::object();
  std::set<std::string, std::less<>> known_;
  std::vector<ImportNote> notes_;
  absl::Status fault_;
};

}  // namespace

absl::StatusOr<ImportedJob> ImportJob(const RunArguments& run,
                                      const PathWriter& write_path) {
  return Importer(run, write_path).Run();
}

}  // namespace mpsd::client
