// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/app.h"
#include "client/command_line.h"
#include "client/console.h"
#include "client/model.h"
#include "client/study.h"
#include "client/submit.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/classification.h"
#include "core/spec/fields.h"
#include "core/spec/train_spec.h"

// `mpsctl init`: writes a first job.json for data, by the names of their
// columns and a look at the rows. The daemon's plan checks every row.

namespace mpsd::client {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Counts = std::map<std::string, int64_t>;

constexpr size_t kMostBytes = 64 << 20;  // read of a file
constexpr size_t kMostValues = 1000;     // counted of a column
constexpr char kLanguage[] = "CAUSAL_LM", kTexts[] = "SEQ_CLS",
               kImages[] = "IMAGE_CLS";

struct Column {
  std::string name;
  int64_t filled = 0, characters = 0, longest = 0;  // rows, of all, of one
  Counts values = {};

  void Add(const Json& value) {
    if (value.is_null() || value == "") return;
    const std::string text =
        value.is_string()
            ? value.get<std::string>()
            : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    const int64_t length = std::count_if(
        text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    ++filled;
    characters += length;
    longest = std::max(longest, length);
    if (values.size() < kMostValues || values.contains(text)) ++values[text];
  }
  // Whether the values look like labels, each of several rows.
  bool IsFew() const {
    return values.size() > 1 &&
           static_cast<int64_t>(values.size()) * 5 <= filled;
  }
};
using Columns = std::vector<const Column*>;

// Calls take(fields) for each row of separated values, quoted as in RFC 4180.
template <typename Take>
void SplitRows(std::string_view text, char separator, const Take& take) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : '\n';
    std::string& field = fields.back();
    if (quoted && i < text.size()) {
      const bool twice = c == '"' && text.substr(i + 1, 1) == "\"";
      quoted = c != '"' || twice;
      if (quoted) field += c;
      i += twice ? 1 : 0;
    } else if (c == '"' && field.empty()) {
      quoted = true;
    } else if (c == separator) {
      fields.emplace_back();
    } else if (c != '\n') {
      field += c;
    } else {
      if (absl::EndsWith(field, "\r")) field.pop_back();
      if (fields.size() > 1 || !field.empty()) take(fields);
      fields.assign(1, "");
    }
  }
}

// The rows of data files, or the beginning of them.
struct Sample {
  std::vector<Column> columns;
  int64_t rows = 0;
  bool cut = false;

  absl::Status Read(const fs::path& file) {
    ASSIGN_OR_RETURN(const auto mapped, base::MappedFile::Open(file));
    std::string_view text = mapped->bytes();
    if (text.size() > kMostBytes) {
      cut = true;
      text = text.substr(0, text.rfind('\n', kMostBytes) + 1);
    }
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    std::vector<std::string> header;
    const std::string kind = DataKind(file);
    if (kind == "JSON") {
      ReadJson(text);
    } else {
      SplitRows(text, kind == "TSV" ? '\t' : ',', [&](const auto& fields) {
        if (header.empty()) return header.assign(fields.begin(), fields.end());
        ++rows;
        for (size_t i = 0; i < std::min(header.size(), fields.size()); ++i) {
          Find(header[i]).Add(fields[i]);
        }
      });
    }
    if (rows > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        file.string(), cut ? ": no row ends in its first 64 MiB; write a JSON "
                             "object a line (.jsonl)"
                           : ": has no rows"));
  }

  // A list of rows, or one a line.
  void ReadJson(std::string_view text) {
    const auto add = [this](const Json& row) {
      if (!row.is_object()) return;
      ++rows;
      for (const auto& [name, value] : row.items()) Find(name).Add(value);
    };
    const Json list = base::ParseTree<Json>(text);
    if (list.is_array()) {
      for (const Json& row : list) add(row);
      return;
    }
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      add(base::ParseTree<Json>(text.substr(at, end - at)));
      at = end + 1;
    }
  }

  Column& Find(const std::string& name) {
    for (Column& column : columns) {
      if (column.name == name) return column;
    }
    return columns.emplace_back(Column{.name = name});
  }
};

struct InitOptions {
  std::string data = ".", columns, model, task, output = "job.json";
  bool force = false;
};

// Columns by whose names rows are known, and the fields of `dataset` that name
// them; the first shape that fits counts.
struct Shape {
  const char *task, *columns, *fields;
};
constexpr char kPair[] = "prompt_column completion_column";
constexpr char kPreferences[] = "";  // in columns that no field names
constexpr Shape kShapes[] = {{kLanguage, "chosen rejected", kPreferences},
                             {kLanguage, "messages", "messages_column"},
                             {kLanguage, "conversations", "messages_column"},
                             {kLanguage, "prompt completion", kPair},
                             {kLanguage, "question answer", kPair},
                             {kLanguage, "instruction output", "format"},
                             {kLanguage, "instruction response", kPair},
                             {kLanguage, "prompt response", kPair},
                             {kLanguage, "input output", kPair},
                             {kLanguage, "text", "text_columns"},
                             {kTexts, "sentence1 sentence2", "text_columns"},
                             {kTexts, "premise hypothesis", "text_columns"},
                             {kTexts, "question1 question2", "text_columns"},
                             {kTexts, "sentence", "text_columns"},
                             {kTexts, "text", "text_columns"}};

// Whether `name` is, in any case, one of `names`, "|a|b|".
bool IsOneOf(const std::string& name, const char* names) {
  return absl::StrContains(names,
                           absl::StrCat("|", absl::AsciiStrToLower(name), "|"));
}
constexpr char kColumnsOfTasks[] =
    "PROMPT,ANSWER or TEXT for a language model, TEXT,LABEL or "
    "TEXT,TEXT,LABEL for a classifier";
constexpr char kLabelNames[] =
    "|label|labels|class|category|intent|topic|sentiment|target|score|";
constexpr char kEvaluations[] = "|eval|validation|valid|val|dev|";
constexpr char kTests[] = "|test|testing|";
constexpr char kImageKinds[] = "|.png|.jpg|.jpeg|.webp|";

std::string NamesOf(const Columns& columns) {
  return absl::StrJoin(columns, ", ", [](std::string* out, const Column* one) {
    absl::StrAppend(out, Printable(one->name));
  });
}

std::string LabelsText(const Counts& labels) {
  constexpr size_t kShown = 8;
  std::vector<std::string> texts;
  for (const auto& [label, count] : labels) {
    if (texts.size() == kShown) break;
    texts.push_back(absl::StrCat(Printable(label), " (", count, ")"));
  }
  return absl::StrCat(labels.size(), " labels: ", absl::StrJoin(texts, ", "),
                      labels.size() > kShown ? " …" : "");
}

// The parts of a data set, by the words of their files' or folders' names.
struct Parts {
  std::vector<fs::path> train, evaluations, tests;

  void Add(const fs::path& path) {
    const std::string name = path.filename().string();
    auto* part = &train;
    for (const auto& word : absl::StrSplit(name, absl::ByAnyChar("-_. "))) {
      if (IsOneOf(std::string(word), kEvaluations)) part = &evaluations;
      if (IsOneOf(std::string(word), kTests)) part = &tests;
    }
    part->push_back(path);
  }
  // A test set may have no labels: it counts only if there is no other.
  std::vector<fs::path>& eval() {
    return evaluations.empty() ? tests : evaluations;
  }
};

// The number of images in each folder of `folder`.
Counts ImagesByLabel(const fs::path& folder) {
  Counts labels;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (it.depth() == 1) it.disable_recursion_pending();
    if (it.depth() == 1 &&
        IsOneOf(it->path().extension().string(), kImageKinds)) {
      ++labels[it->path().parent_path().filename().string()];
    }
  }
  return labels;
}

// From data to the fields of a job.
class FirstJob {
 public:
  // A field by its path, and the reason for its value.
  struct Field {
    std::string name;
    Json value;
    std::string why;
  };
  std::string task;
  std::vector<Field> fields;

  explicit FirstJob(const InitOptions& options)
      : task(options.task), options_(options) {}

  absl::Status Run() {
    const fs::path data = options_.data;
    std::error_code error;
    Parts parts;
    if (fs::is_directory(data, error)) {
      const auto names =
          FindDataFiles(data, fs::path(options_.output).filename().string());
      if (!names.ok()) return FindImages(names.status());
      for (const std::string& name : *names) parts.Add(data / name);
      if (parts.train.empty()) parts.train.swap(parts.eval());
    } else if (fs::exists(data, error) && DataKind(data).empty()) {
      RETURN_IF_ERROR(spec::CheckKindIsRead(options_.data, ""));
      return absl::InvalidArgumentError(absl::StrCat(
          options_.data, ": expected .csv, .tsv, .jsonl or .json"));
    } else {
      parts.train.push_back(data);
    }
    for (const fs::path& file : parts.train) {
      RETURN_IF_ERROR(sample_.Read(file));
    }
    if (task == kImages) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.data, ": --task ", kImages,
          " is for a folder with a folder of images for each label"));
    }
    AddData(parts, absl::StrCat(sample_.cut ? "more than " : "",
                                CountOf(sample_.rows, "row")));
    return ChooseColumns();
  }

 private:
  void Add(const std::string& name, Json value, const std::string& why = "") {
    fields.push_back({name, std::move(value), why});
  }

  // Paths are relative to job.json if that is in the current folder.
  void AddData(Parts parts, const std::string& rows) {
    const std::vector<fs::path>& eval = parts.eval();
    const bool here = !fs::path(options_.output).has_parent_path();
    const auto paths = [&](const std::vector<fs::path>& files) {
      Json list = Json::array();
      for (const fs::path& file : files) {
        list.push_back(NamedPath(here ? file : fs::absolute(file)).string());
      }
      return list;
    };
    Add("dataset.train", paths(parts.train), rows);
    if (eval.empty()) {
      Add("dataset.validation_split", 0.1, "a tenth for evaluations");
    } else {
      Add("dataset.eval", paths(eval), "for evaluations, by the name");
    }
  }

  absl::Status FindImages(const absl::Status& none) {
    Parts parts;
    std::set<std::string> unused;
    std::error_code error;
    for (fs::directory_iterator it(options_.data, error), end;
         !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (!ImagesByLabel(it->path()).empty()) {
        parts.Add(it->path());
      } else if (it->is_directory() && !name.starts_with('.')) {
        unused.insert(name);
      }
    }
    const bool split = !parts.train.empty();
    if (!split) parts.train.push_back(options_.data);
    const Counts labels = ImagesByLabel(parts.train[0]);
    if (labels.size() < 2 || parts.train.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          none.message(), ", or a folder of images for each label"));
    }
    if (!split && !parts.eval().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.data, ": ", parts.eval()[0].filename().string(),
          " is a part of the data among folders of labels; move these into ",
          (fs::path(options_.data) / "train").string()));
    }
    task = kImages;
    Add("task", task, "a folder of images for each label");
    std::string rows = LabelsText(labels);
    if (split && !unused.empty()) {
      absl::StrAppend(&rows, "; without folders of labels, so not used: ",
                      absl::StrJoin(unused, ", "));
    }
    AddData(parts, rows);
    AddNewHead();
    return absl::OkStatus();
  }

  // By its name, else the only column with few values.
  const Column* Label() const {
    Columns few;
    for (const Column& column : sample_.columns) {
      const bool may_be =
          column.IsFew() || column.filled < 20 || task == kTexts;
      if (may_be && IsOneOf(column.name, kLabelNames)) return &column;
      if (column.IsFew()) few.push_back(&column);
    }
    return few.size() == 1 ? few[0] : nullptr;
  }

  // The columns of the first shape of the task that the rows have.
  Columns Find(std::string_view of, const Column* label, Shape* shape) const {
    for (const Shape& one : kShapes) {
      Columns found;
      const std::vector<std::string> names = absl::StrSplit(one.columns, ' ');
      for (const std::string& name : names) {
        for (const Column& column : sample_.columns) {
          const bool is = absl::EqualsIgnoreCase(column.name, name);
          if (is && &column != label) found.push_back(&column);
        }
      }
      *shape = one;
      if (one.task == of && found.size() == names.size()) return found;
    }
    return {};
  }

  // Most models of a hub have the head of another task.
  void AddNewHead() {
    Add("classification.ignore_mismatched_sizes", true,
        "a new head if the model's has another number of labels");
  }

  bool Has(std::string_view name) const {
    return std::any_of(sample_.columns.begin(), sample_.columns.end(),
                       [&](const Column& one) { return one.name == name; });
  }

  // Whether the columns are those of a GLUE task whose label has a name of its
  // own: the task's name also says how its files are read.
  bool IsGlue() {
    if (task == kLanguage) return false;
    for (const std::string_view name : spec::GlueTaskNames()) {
      const spec::GlueTask& glue = *spec::FindGlueTask(name);
      if (glue.label == "label" || !Has(glue.label) || !Has(glue.sentence1) ||
          !Has(glue.sentence2)) {
        continue;
      }
      task = kTexts;
      fields.insert(fields.begin(), {"task", task, "for a classifier"});
      Add("dataset.task_name", std::string(name), "GLUE's columns");
      AddNewHead();
      return true;
    }
    return false;
  }

  // The columns that --columns names.
  absl::Status TakeColumns(const Columns& all) {
    Columns named;
    const std::vector<std::string> names =
        absl::StrSplit(options_.columns, ',');
    std::vector<std::string_view> known;
    for (const Column* column : all) known.push_back(column->name);
    for (const std::string& name : names) {
      const size_t before = named.size();
      for (const Column* column : all) {
        if (column->name == name) named.push_back(column);
      }
      if (named.size() > before) continue;
      const auto near = spec::NearestName(name, known);
      return absl::InvalidArgumentError(absl::StrCat(
          "--columns: no column ", base::Quotable(name), "; ",
          near ? absl::StrCat("did you mean ", std::string(*near), "?")
               : absl::StrCat("the columns are ", NamesOf(all))));
    }
    const Column* label = named.back();
    const bool labelled =
        named.size() > 2 || (named.size() > 1 && label->IsFew());
    if (task.empty()) task = labelled ? kTexts : kLanguage;
    const size_t least = task == kTexts ? 2 : 1;
    if (named.size() < least || named.size() > least + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--columns: expected ", kColumnsOfTasks, ", of ", NamesOf(all)));
    }
    if (task == kTexts) named.pop_back();
    const bool pair = task == kLanguage && named.size() == 2;
    AddShape(named, pair ? kPair : "text_columns", label);
    return absl::OkStatus();
  }

  absl::Status ChooseColumns() {
    Columns texts, all;
    for (const Column& column : sample_.columns) all.push_back(&column);
    if (!options_.columns.empty()) return TakeColumns(all);
    if (IsGlue()) return absl::OkStatus();
    const Column* label = Label();
    Shape language = {}, classes = {};
    const Columns parts = Find(kLanguage, nullptr, &language);
    // The answers of a pair may repeat, and are longer than labels.
    constexpr int64_t kLongestLabel = 40;  // characters
    if (task.empty() && parts.size() > 1 && label != nullptr &&
        label->longest > kLongestLabel && !IsOneOf(label->name, kLabelNames) &&
        std::find(parts.begin(), parts.end(), label) != parts.end()) {
      label = nullptr;
    }
    if (label != nullptr) {
      texts = Find(kTexts, label, &classes);
      if (texts.empty() && all.size() == 2 && parts.size() != 1) {
        texts = {all[0] == label ? all[1] : all[0]};
      }
    }
    if (task.empty() && !parts.empty() && !texts.empty() &&
        (texts != parts || !IsOneOf(label->name, kLabelNames))) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.data, ": a language model may learn ", NamesOf(parts),
          ", or a classifier ", Printable(label->name), " (",
          label->values.size(), " values in ", label->filled,
          " rows): choose with --task CAUSAL_LM or --task SEQ_CLS"));
    }
    if (task.empty()) task = texts.empty() ? kLanguage : kTexts;
    if ((task == kTexts ? texts : parts).empty()) {
      const bool one = all.size() == 1 && absl::StrContains(all[0]->name, ";");
      return absl::InvalidArgumentError(absl::StrCat(
          options_.data,
          one ? ": separated by semicolons; save it with commas: "
              : ": the columns are not known: ",
          NamesOf(all),
          one ? "" : absl::StrCat("; name them: --columns ", kColumnsOfTasks)));
    }
    const bool reads = task == kLanguage;
    AddShape(reads ? parts : texts, reads ? language.fields : classes.fields,
             label);
    return absl::OkStatus();
  }

  void AddShape(const Columns& columns, const char* names,
                const Column* label) {
    if (task == kLanguage) {
      return AddColumns("for a language model", columns, names, 1024);
    }
    AddColumns("texts with labels", columns, names, 512);
    Add("dataset.label_column", label->name, LabelsText(label->values));
    AddNewHead();
  }

  void AddColumns(const char* why, const Columns& columns, const char* names,
                  int64_t most_tokens) {
    fields.insert(fields.begin(), {"task", task, why});
    Json values = Json::array();
    std::vector<std::string> lengths;
    int64_t longest = 0, tokens = 64;
    for (const Column* column : columns) {
      values.push_back(column->name);
      longest += column->longest;
      lengths.push_back(absl::StrCat(
          Printable(column->name), ": ",
          CountOf(column->characters / std::max<int64_t>(column->filled, 1),
                  "character"),
          " on average, ", column->longest, " at most"));
    }
    const std::vector<std::string> parts =
        absl::StrSplit(names, ' ', absl::SkipEmpty());
    if (parts.empty()) {
      Add("preference.trainer", "dpo", "rows of chosen and rejected answers");
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      Json value = values[i];
      if (parts[i] == "text_columns") value = values;
      if (parts[i] == "format") value = "alpaca";
      Add("dataset." + parts[i], value);
    }
    // A token has about four characters of English, fewer of other languages.
    while (tokens < most_tokens && tokens * 2 < longest) tokens *= 2;
    Add("training.max_length", tokens, absl::StrJoin(lengths, "; "));
  }

  const InitOptions& options_;
  Sample sample_;
};

// The model that fits: an encoder before a decoder for labels of texts, then
// the largest; null without one.
const v1::Model* BestModel(const v1::ListModelsResponse& listed,
                           const std::string& task) {
  const v1::Model* best = nullptr;
  const auto rank = [](const v1::Model& model) {
    return std::pair(-model.tasks_size(), model.parameters());
  };
  for (const v1::Model& model : listed.models()) {
    const auto& tasks = model.tasks();
    const bool serves =
        std::find(tasks.begin(), tasks.end(), task) != tasks.end() &&
        (!model.has_fits() || model.fits());
    if (serves && (best == nullptr || rank(model) > rank(*best))) best = &model;
  }
  return best;
}

// Adds the model; otherwise prints why there is none.
ExitCode AddModel(const Console& console, const std::string& chosen,
                  const grpc::Status& status,
                  const v1::ListModelsResponse& listed, FirstJob* job) {
  FirstJob::Field field{"model", chosen, "by --model"};
  if (chosen.empty() && !status.ok()) {
    const ExitCode code = console.Fail(status);
    console.err << "With --model MODEL, init needs no daemon.\n";
    return code;
  }
  if (chosen.empty()) {
    const v1::Model* best = BestModel(listed, job->task);
    if (best == nullptr) {
      return console.Fail(
          ExitCode::kNotFound,
          absl::StrCat("mpsd has no model for ", job->task,
                       " that fits its machine"),
          absl::StrCat(
              "Send one with `mpsctl model push FOLDER`, ",
              !listed.can_pull()
                  ? ""
                  : absl::StrCat(
                        "let mpsd fetch one, such as `mpsctl model pull ",
                        job->task == kImages ? "google/vit-base-patch16-224"
                        : job->task == kTexts
                            ? "google-bert/bert-base-uncased"
                            : "HuggingFaceTB/SmolLM2-135M-Instruct",
                        "`, "),
              "or name one with --model."));
    }
    field.value = best->name();
    const std::string fit = FitText(*best);
    field.why =
        absl::StrCat("the largest that fits", fit.empty() ? "" : "; ", fit);
  }
  job->fields.insert(job->fields.begin(), field);
  for (const v1::Model& model : listed.models()) {
    if (field.value != model.name() || model.max_row_tokens() <= 0) continue;
    for (FirstJob::Field& one : job->fields) {
      if (one.name != "training.max_length") continue;
      one.value =
          std::min<int64_t>(one.value.get<int64_t>(), model.max_row_tokens());
    }
  }
  const bool preferences = std::any_of(
      job->fields.begin(), job->fields.end(),
      [](const auto& one) { return one.name == "preference.trainer"; });
  const FirstJob::Field adapter[] = {
      {"lora.r", 16, "a usual rank of adapters"},
      {"lora.lora_alpha", 32, "twice the rank"},
      {"lora.target_modules", "all-linear", "every linear layer"},
      {"training.num_train_epochs", 3, "usual for adapters"},
      {"training.learning_rate", preferences ? 1e-5 : 2e-4,
       "usual for adapters"}};
  job->fields.insert(job->fields.end(), std::begin(adapter), std::end(adapter));
  return ExitCode::kOk;
}

// The text of the job.json, after an explanation of its fields.
absl::StatusOr<std::string> JobText(
    const Console& console, const std::vector<FirstJob::Field>& fields) {
  const auto text = [](const Json& value, int indent) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
  };
  Json json = Json::object();
  Table table({"FIELD", "VALUE", "WHY"});
  for (const FirstJob::Field& field : fields) {
    RETURN_IF_ERROR(spec::SetField(json, field.name, field.value));
    table.Add({field.name, text(field.value, -1), field.why});
  }
  if (console.json) {
    console.PrintJson(json);
  } else {
    console.Print(table);
  }
  console.out << std::flush;
  return text(json, 2) + "\n";
}

ExitCode Init(const InitOptions& options, const Console& console) {
  constexpr char kNothing[] = "Nothing was written.";
  std::error_code error;
  if (!options.force && fs::exists(options.output, error)) {
    return console.BadInput(
        absl::StrCat(options.output, " exists"),
        "--force replaces it, --output FILE names another.");
  }
  FirstJob job(options);
  if (absl::Status s = job.Run(); !s.ok()) {
    return console.BadInput(s, kNothing);
  }
  v1::ListModelsResponse listed;
  const grpc::Status status =
      console.daemon.Call(&ModelStub::ListModels, {}, &listed);
  ExitCode code = AddModel(console, options.model, status, listed, &job);
  if (code != ExitCode::kOk) return code;
  const absl::StatusOr<std::string> text = JobText(console, job.fields);
  if (!text.ok()) return console.BadInput(text.status(), kNothing);
  std::ostringstream unused;
  std::ostream& out = console.json ? unused : console.out;
  if (status.ok()) {
    const Console course{out, console.err, console.terminal, console.daemon};
    code = PlanJob({.path = options.output, .text = *text}, course);
  } else {
    out << "No plan: "
        << (status.error_code() == grpc::StatusCode::UNAVAILABLE
                ? "no daemon answers"
                : Printable(status.error_message()))
        << ".\n";
  }
  if (code != ExitCode::kOk && code != ExitCode::kVerdictFail) {
    console.err << kNothing << '\n';
    return code;
  }
  if (absl::Status s = base::WriteFileAtomic(options.output, *text); !s.ok()) {
    return console.BadInput(s);
  }
  out << "Wrote " << Printable(options.output) << ".\n";
  if (code == ExitCode::kOk) {
    out << "Next: `mpsctl submit " << Printable(options.output) << "`\n";
  }
  return code;
}

void DeclareInit(Command& verb, InitOptions& options) {
  verb.add_option("DATA", options.data,
                  "A file of rows (CSV, TSV, JSON Lines, JSON), a folder of\n"
                  "such files, or one with a folder of images for each label")
      ->capture_default_str();
  verb.add_option("--model MODEL", options.model,
                  "As in job.json; default: the largest model of mpsd that\n"
                  "fits task and machine");
  verb.add_option("--columns NAMES", options.columns,
                  "PROMPT,ANSWER or TEXT; of a classifier TEXT,LABEL or\n"
                  "TEXT,TEXT,LABEL");
  verb.add_option("--task TASK", options.task, "Default: by the columns")
      ->check(IsMember({kLanguage, kTexts, kImages}));
  verb.add_option("-o,--output FILE", options.output, "The job.json to write")
      ->capture_default_str();
  verb.add_flag("-f,--force", options.force, "Replace an existing file");
}

}  // namespace

std::vector<Verb> InitVerbs() {
  return {{"init", "Write a first job.json for your data, and plan it",
           Takes(DeclareInit, Init)}};
}

}  // namespace mpsd::client
