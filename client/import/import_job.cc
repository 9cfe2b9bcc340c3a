// SPDX-License-Identifier: Apache-2.0
#include "client/import/import_job.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/import/import_rules.h"
#include "client/import/run_values.h"
#include "core/spec/field_names.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;
using Kind = FieldRule::Kind;

constexpr int kScriptMaxLength = 128;       // --max_seq_length's default
constexpr double kScriptValidation = 0.15;  // --train_val_split's default
constexpr int kDefaultEvalSteps = 500;      // --logging_steps' default

class Importer {
 public:
  Importer(const RunArguments& run, const PathWriter& write_path)
      : run_(run), write_path_(write_path), values_(run) {}

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
    if (!values_.fault().ok()) return values_.fault();
    return Finish();
  }

 private:
  void Note(const std::string& name, const std::string& text) {
    notes_.push_back({absl::StrCat("--", name), text});
  }

  void FindTask() {
    images_ = run_.script == "run_image_classification.py" ||
              values_.Has("train_dir");
    job_["name"] = nullptr;  // keeps its place in the object
    job_["model"] = nullptr;
    job_["task"] = images_ ? "IMAGE_CLS" : "SEQ_CLS";
    job_["fine_tune_type"] = "full";
    job_["dataset"] = Json::object();
    job_["classification"] = Json::object();
    job_["training"] = Json::object();
    if (const std::string name = values_.Text("run_name"); !name.empty()) {
      job_["name"] = name;
    }
  }

  void Model() {
    std::string model = values_.Text("model_name_or_path");
    if (model.empty() && images_) {
      model = "google/vit-base-patch16-224-in21k";
      Note("model_name_or_path",
           absl::StrCat("not given: the script's ", model, " is written"));
    }
    if (model.empty()) {
      return values_.Fault(
          "--model_name_or_path: is missing; it names the model");
    }
    std::error_code error;
    const bool folder = std::filesystem::is_directory(model, error);
    job_["model"] = folder ? write_path_(model) : model;
  }

  void TrainingData() {
    Json& dataset = job_["dataset"];
    const std::string task = absl::AsciiStrToLower(values_.Text("task_name"));
    const std::string name = values_.Text("dataset_name");
    const std::string config = values_.Text("dataset_config_name");
    std::string train = values_.Text(images_ ? "train_dir" : "train_file");
    if (train.empty() && !task.empty()) {
      DownloadedTask(task);
    } else if (train.empty() && !name.empty()) {
      DownloadedSet(name, config);
    } else if (train.empty()) {
      values_.Fault(
          absl::StrCat("no training data: ",
                       images_ ? "--train_dir" : "--task_name or --train_file",
                       " is missing"));
    } else {
      train_ = write_path_(train);
    }
    dataset["train"] = train_;
    if (!task.empty()) dataset["task_name"] = task;
    if (!values_.IsOn("do_train"))
      Note("do_train", "not given; a job always trains");
  }

  // Notes the tasks whose data the scripts fetch from the Hub; a job names
  // files.
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
        values_.Text(images_ ? "validation_dir" : "validation_file");
    if (!validation.empty()) eval_ = write_path_(validation);
    const bool asked = values_.IsOn("do_eval");
    const bool evaluates = asked || Strategy() != "no";
    const std::optional<double> split = values_.Number("train_val_split");
    if (evaluates && images_ && eval_.empty()) {
      dataset["validation_split"] = split.value_or(kScriptValidation);
    } else if (evaluates && !eval_.empty()) {
      dataset["eval"] = eval_;
    } else if (!validation.empty()) {
      Note("validation_file",
           "left out: there is neither --do_eval nor an "
           "--eval_strategy");
    }
    evaluates_ =
        dataset.contains("eval") || dataset.contains("validation_split");
    const std::string test = values_.Text("test_file");
    if (!test.empty()) predict_ = write_path_(test);
    if (values_.IsOn("do_predict") && !predict_.empty()) {
      dataset["predict"] = predict_;
    } else if (!test.empty()) {
      Note("test_file", "left out: there is no --do_predict");
    }
  }

  void Columns() {
    if (values_.IsOn("do_regression"))
      job_["classification"]["problem_type"] = "regression";
    const std::string columns = values_.Text("text_column_names");
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
    Json& section = job_[std::string(rule->section)];
    const std::string field(rule->field);
    switch (rule->kind) {
      case Kind::kText:
        section[field] = values_.Text(rule->name);
        return;
      case Kind::kSwitch:
        section[field] = values_.IsOn(rule->name);
        return;
      case Kind::kNumber:
        section[field] = values_.Number(rule->name).value_or(0);
        return;
      case Kind::kInteger:
        return Integer(section, field, *values_.Find(rule->name));
    }
  }

  void Integer(Json& section, const std::string& field,
               const RunArgument& argument) {
    const std::optional<int64_t> value = IntegerOf(TextOf(argument));
    const double share = NumberOf(TextOf(argument)).value_or(0);
    if (value) {
      section[field] = *value;
    } else if (share > 0 && share < 1) {
      Note(argument.name, absl::StrCat("a share of all steps: write their "
                                       "number into training.",
                                       field));
    } else {
      values_.Fault(argument, "an integer");
    }
  }

  void Length() {
    const RunArgument* length = values_.Find("max_seq_length");
    if (images_) return;
    Json& training = job_["training"];
    if (length == nullptr) {
      training["max_length"] = kScriptMaxLength;
      Note("max_seq_length", absl::StrCat("not given: the script's ",
                                          kScriptMaxLength, " is written"));
    } else {
      Integer(training, "max_length", *length);
    }
  }

  // In Transformers 5 a value below 1 is a share of the steps.
  void Warmup() {
    const RunArgument* warmup = values_.Find("warmup_steps");
    if (warmup == nullptr) return;
    const double value = NumberOf(TextOf(*warmup)).value_or(0);
    if (value > 0 && value < 1) {
      job_["training"]["warmup_ratio"] = value;
    } else {
      Integer(job_["training"], "warmup_steps", *warmup);
    }
  }

  std::string Strategy() {
    const std::string old = values_.Text("evaluation_strategy");
    const std::string strategy = values_.Text("eval_strategy");
    if (!strategy.empty()) return absl::AsciiStrToLower(strategy);
    return old.empty() ? "no" : absl::AsciiStrToLower(old);
  }

  void Evaluations() {
    const RunArgument* steps = values_.Find("eval_steps");
    if (!evaluates_ || Strategy() != "steps") return;
    Json& training = job_["training"];
    if (steps != nullptr) {
      Integer(training, "eval_steps", *steps);
    } else {
      training["eval_steps"] =
          training.value("logging_steps", kDefaultEvalSteps);
    }
  }

  void Checkpoints() {
    const RunArgument* steps = values_.Find("save_steps");
    const std::string strategy =
        absl::AsciiStrToLower(values_.Text("save_strategy"));
    Json& training = job_["training"];
    if (strategy == "no") {
      training["save_steps"] = 0;
    } else if (strategy == "epoch" || strategy == "best") {
      Note("save_strategy",
           absl::StrCat(strategy,
                        ": checkpoints come every save_steps, 500 "
                        "unless job.json says another number"));
    } else if (steps != nullptr) {
      Integer(training, "save_steps", *steps);
    }
  }

  void Device() {
    const bool use_cpu = values_.IsOn("use_cpu");
    const bool no_cuda = values_.IsOn("no_cuda");
    if (values_.IsOn("use_mps_device")) {
      job_["device"] = "mps";
    } else if (use_cpu || no_cuda) {
      job_["device"] = "cpu";
    }
  }

  // Handles the arguments that no member above reads.
  void Rest() {
    for (const RunArgument& argument : run_.arguments) {
      if (values_.asked().contains(argument.name)) continue;
      const std::string why(WhyNoEqual(argument.name));
      if (why.empty()) {
        Unknown(argument.name);
      } else if (!IsOff(argument) && !IsAdamW(argument)) {
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

  static bool IsAdamW(const RunArgument& argument) {
    return argument.name == "optim" && TextOf(argument) == "adamw_torch";
  }

  void Unknown(const std::string& name) {
    std::vector<std::string_view> names = RuleNames();
    names.insert(names.end(), values_.asked().begin(), values_.asked().end());
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
  RunValues values_;
  bool images_ = false;
  bool evaluates_ = false;
  std::string train_, eval_, predict_;
  Json job_ = Json::object();
  std::vector<ImportNote> notes_;
};

}  // namespace

absl::StatusOr<ImportedJob> ImportJob(const RunArguments& run,
                                      const PathWriter& write_path) {
  return Importer(run, write_path).Run();
}

}  // namespace mpsd::client
