// SPDX-License-Identifier: Apache-2.0
#include "client/show.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/job_id.h"
#include "client/list.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/host_text.h"
#include "client/text/json.h"
#include "client/verbs.h"
#include "core/base/text.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {

namespace {

constexpr int kLabelColumns = 24;  // a longer label is cut

using Row = std::vector<std::string>;

std::map<std::string, double> ByName(const MetricMap& metrics) {
  return {metrics.begin(), metrics.end()};
}

std::string Padded(const std::string& text, int width, bool left) {
  const std::string gap(std::max(0, width - Width(text)), ' ');
  return left ? text + gap : gap + text;
}

// Prints rows indented by two, the first column left-aligned and the others
// right-aligned.
void PrintRows(const std::vector<Row>& rows, std::ostream& out) {
  std::vector<int> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      out << "  " << Padded(row[i], widths[i], i == 0);
    }
    out << '\n';
  }
}

struct Matrix {
  std::vector<std::string> labels;
  std::vector<std::vector<int64_t>> counts;
};

std::optional<Matrix> ParseMatrix(const std::string& text) {
  const auto json = base::ParseTree<nlohmann::json>(text);
  Matrix matrix;
  try {
    matrix.labels = json.at("labels").get<std::vector<std::string>>();
    json.at("matrix").get_to(matrix.counts);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  bool square =
      !matrix.labels.empty() && matrix.counts.size() == matrix.labels.size();
  for (const auto& row : matrix.counts) {
    square = square && row.size() == matrix.labels.size();
  }
  if (!square) return std::nullopt;
  return matrix;
}

}  // namespace

std::string MetricsText(const MetricMap& metrics) {
  std::string text;
  for (const auto& [name, value] : ByName(metrics)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", Printable(name), " ",
                    Loss(value));
  }
  return text;
}

void PrintMetrics(const v1::Job& job, std::ostream& out) {
  if (job.metrics().empty()) return;
  const bool final = job.state() == v1::JOB_STATE_SUCCEEDED;
  std::vector<Row> rows = {{"metric", final ? "final" : "latest"}};
  const v1::Evaluated& best = job.best_evaluation();
  const bool with_best = !best.metrics().empty();
  if (with_best) {
    rows[0].push_back(absl::StrCat("best, at step ", best.step()));
  }
  for (const auto& [name, value] : ByName(job.metrics())) {
    rows.push_back({Printable(name), Loss(value)});
    if (!with_best) continue;
    const auto found = best.metrics().find(name);
    rows.back().push_back(found == best.metrics().end() ? "-"
                                                        : Loss(found->second));
  }
  PrintRows(rows, out);
}

void PrintConfusionMatrix(const std::string& json, std::ostream& out) {
  const std::optional<Matrix> matrix = ParseMatrix(json);
  if (!matrix) return;
  std::vector<Row> rows = {{"true \\ predicted"}};
  for (size_t i = 0; i < matrix->labels.size(); ++i) {
    const std::string label = Cut(Printable(matrix->labels[i]), kLabelColumns);
    rows[0].push_back(label);
    rows.push_back({label});
    for (int64_t count : matrix->counts[i]) {
      rows.back().push_back(absl::StrCat(count));
    }
  }
  PrintRows(rows, out);
}

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSections[] = {"environment", "shape",    "memory",
                                     "fallbacks",   "data",     "conditions",
                                     "pauses",      "durations"};
constexpr const char* kResults[] = {
    "state",     "exit_reason", "verdict",
    "steps",     "train_loss",  "eval_loss_before",
    "eval_loss", "metrics",     "best_evaluation"};

std::string ValueText(const std::string& field, const Json& value,
                      absl::TimeZone zone) {
  constexpr double kExact = 10;  // seconds
  if (value.is_number() && absl::EndsWith(field, "_ratio")) {
    return absl::StrFormat("%.0f %%", 100 * value.get<double>());
  }
  if (value.is_number() && absl::EndsWith(field, "_seconds") &&
      value.get<double>() < kExact) {
    return absl::StrFormat("%.3gs", value.get<double>());
  }
  const std::string text = FieldText(field, value, zone);
  return text.empty() ? "-" : Printable(text);
}

// "user active" for user_active_seconds, whose value says the unit.
std::string Title(const std::string& field) {
  std::string title = field;
  for (const char* unit : {"_bytes", "_seconds", "_ratio"}) {
    if (absl::EndsWith(title, unit)) title.resize(title.rfind('_'));
  }
  return absl::StrReplaceAll(title, {{"_", " "}});
}

// A row for a value; one per entry of an object or a list of files.
void AddRows(const std::string& name, const std::string& field,
             const Json& value, absl::TimeZone zone, RecordSection& section) {
  const bool files = value.is_array() && !value.empty() && value[0].is_object();
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, one] : value.items()) {
      AddRows(absl::StrCat(name, " ", key), absl::StrCat(field, ".", key), one,
              zone, section);
    }
  } else if (files) {
    for (const Json& file : value) {
      section.rows.emplace_back(
          Printable(absl::StrCat(name, " ", file.value("path", ""))),
          Printable(file.value("sha256", "")));
    }
  } else {
    section.rows.emplace_back(Printable(name), ValueText(field, value, zone));
  }
}

void PrintAttempts(const Console& console, const v1::JobRecord& record) {
  if (record.attempts_size() < 2) return;
  console.out << '\n';
  Table table({"ATTEMPT", "BEGAN", "STEPS", "DEVICE", "PAUSED", "ENDED AS"});
  int number = record.attempt_count() - record.attempts_size();
  for (const v1::RunAttempt& attempt : record.attempts()) {
    table.Add({absl::StrCat(++number),
               DateTime(ToTime(attempt.start_time()), console.terminal.zone),
               absl::StrCat(attempt.steps()), OrDash(attempt.device()),
               Seconds(attempt.pauses().seconds()), attempt.exit_reason()});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
}

}  // namespace

std::vector<RecordSection> DescribeRecord(const v1::JobRecord& record,
                                          bool results, absl::TimeZone zone) {
  const Json json = ToJson(record);
  std::vector<RecordSection> all;
  for (const char* part : kSections) {
    const Json& object = json[part];
    if (!object.is_object()) continue;
    RecordSection section{absl::AsciiStrToUpper(part), {}};
    for (const auto& [field, value] : object.items()) {
      AddRows(Title(field), field, value, zone, section);
    }
    all.push_back(std::move(section));
  }
  if (!results) return all;
  RecordSection section{"RESULTS", {}};
  for (const char* field : kResults) {
    AddRows(Title(field), field, json[field], zone, section);
  }
  all.push_back(std::move(section));
  return all;
}

void PrintRecord(const Console& console, const v1::GetRecordResponse& shown) {
  const v1::JobRecord& record = shown.record();
  for (const RecordSection& section :
       DescribeRecord(record, /*results=*/false, console.terminal.zone)) {
    console.out << '\n';
    Table table({section.title, ""});
    for (const auto& [name, value] : section.rows) table.Add({name, value});
    table.Print(console.out, 0);
  }
  PrintAttempts(console, record);
  if (shown.job().past() && !record.findings().empty()) {
    console.out << '\n';
    PrintFindings(record.findings(), console.out);
  }
  if (!record.notes().empty()) console.out << "\nNOTES\n";
  for (const v1::JobNote& note : record.notes()) {
    console.out << DateTime(ToTime(note.time()), console.terminal.zone) << "  "
                << (note.author().empty() ? "-" : Printable(note.author()))
                << "\n  " << PrintableLines(note.text()) << '\n';
  }
}

grpc::Status FetchRecord(const Console& console, const std::string& id,
                         v1::GetRecordResponse* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRecordRequest request;
  request.set_id(id);
  const grpc::Status status =
      console.daemon.jobs().GetRecord(&context, request, response);
  if (status.error_code() != grpc::StatusCode::NOT_FOUND) return status;
  return GetJob(console, id, response->mutable_job());
}

namespace {

// Prints "  name          value"; nothing for an empty value.
void Field(std::ostream& out, const char* name, const std::string& value) {
  if (value.empty()) return;
  out << "  " << std::left << std::setw(14) << name << PrintableLines(value)
      << '\n';
}

std::string StateText(const v1::Job& job, const Console& console) {
  std::string text = StateName(job.state());
  if (job.cancel_requested() && !IsFinal(job.state())) text += ", cancelling";
  if (job.has_queue_position()) {
    absl::StrAppend(&text, ", ", job.queue_position(), " ahead of it");
  }
  if (job.state() == v1::JOB_STATE_QUEUED && job.has_not_before()) {
    absl::StrAppend(&text, ", not before ",
                    DateTime(ToTime(job.not_before()), console.terminal.zone));
  }
  return text;
}

void Times(const v1::Job& job, const Console& console) {
  const absl::TimeZone zone = console.terminal.zone;
  Field(console.out, "created", DateTime(ToTime(job.create_time()), zone));
  if (job.has_start_time()) {
    Field(console.out, "started",
          absl::StrCat(DateTime(ToTime(job.start_time()), zone), ", attempt ",
                       job.attempt()));
  }
  if (job.has_end_time()) {
    std::string text = DateTime(ToTime(job.end_time()), zone);
    if (job.has_start_time()) {
      const absl::Duration took =
          ToTime(job.end_time()) - ToTime(job.start_time());
      absl::StrAppend(&text, ", after ", Seconds(absl::ToDoubleSeconds(took)));
    }
    Field(console.out, "ended", text);
  }
}

std::string MemoryText(const v1::DeviceMemory& memory) {
  std::string text;
  const auto add = [&text](const char* name, bool has, int64_t bytes) {
    if (!has) return;
    absl::StrAppend(&text, text.empty() ? "" : ", ", Bytes(bytes), " ", name);
  };
  add("allocated", memory.has_current_allocated_bytes(),
      memory.current_allocated_bytes());
  add("at most", memory.has_peak_allocated_bytes(),
      memory.peak_allocated_bytes());
  add("by the driver", memory.has_driver_allocated_bytes(),
      memory.driver_allocated_bytes());
  add("recommended at most", memory.has_recommended_max_bytes(),
      memory.recommended_max_bytes());
  add("worker footprint", memory.has_footprint_bytes(),
      memory.footprint_bytes());
  return text;
}

void ProgressFields(const v1::Job& job, std::ostream& out) {
  if (!job.has_progress()) return;
  const v1::Progress& p = job.progress();
  const int64_t percent =
      p.total_steps() > 0 ? 100 * p.step() / p.total_steps() : 0;
  Field(out, "step",
        absl::StrFormat("%d/%d (%d%%), epoch %.2f", p.step(), p.total_steps(),
                        percent, p.epoch()));
  Field(out, "loss", Loss(p.loss()));
  Field(out, "learning rate", absl::StrFormat("%.4g", p.learning_rate()));
  Field(out, "grad norm", absl::StrFormat("%.4g", p.grad_norm()));
  std::string speed = absl::StrCat(Seconds(p.step_seconds()), " a step");
  if (p.tokens_per_second() > 0) {
    absl::StrAppend(&speed, ", ", Count(p.tokens_per_second()), " tokens/s");
  }
  if (p.has_device_utilization_ratio()) {
    absl::StrAppendFormat(&speed, ", device %.0f%% busy",
                          100 * p.device_utilization_ratio());
  }
  if (job.state() == v1::JOB_STATE_RUNNING) {
    absl::StrAppend(&speed, ", ETA ", Seconds(p.eta_seconds()));
  }
  Field(out, "speed", speed);
  Field(out, "memory", MemoryText(p.memory()));
  Field(out, "on the CPU", FallbackText(p));
}

void LossFields(const v1::Job& job, std::ostream& out) {
  if (job.has_train_loss()) {
    Field(out, "train loss", absl::StrCat(Loss(job.train_loss()), " mean"));
  }
  std::string eval;
  if (job.has_eval_loss_before()) {
    eval = absl::StrCat(Loss(job.eval_loss_before()), " before");
  }
  if (job.has_eval_loss_after()) {
    absl::StrAppend(&eval, eval.empty() ? "" : ", ",
                    Loss(job.eval_loss_after()),
                    IsFinal(job.state()) ? " after" : " latest");
  }
  Field(out, "eval loss", eval);
}

// How the last attempt ended, and how many in a row ended this way.
std::string ExitText(const v1::Job& job) {
  std::string text = job.exit_reason();
  if (job.failures() > 0) {
    absl::StrAppend(&text, ", ", job.failures(), " failures in a row");
  }
  if (job.interruptions() > 0) {
    absl::StrAppend(&text, ", ", job.interruptions(),
                    " interruptions in a row");
  }
  return text;
}

std::string OutputName(const v1::Job& job) {
  if (IsStudy(job.kind())) return "result";
  return job.output_kind() == v1::OUTPUT_KIND_MODEL ? "model" : "adapter";
}

std::string HowToFetch(const v1::Job& job) {
  std::string text =
      absl::StrCat("Fetch the ", OutputName(job), " with `mpsctl download ",
                   job.id(), " --output DIR`");
  const auto spec = spec::ParseTrainSpec(job.spec_json(), "job.json");
  if (spec.ok() && !spec->dataset.predict.empty()) {
    absl::StrAppend(&text, ", its predictions with `mpsctl download ", job.id(),
                    " --predictions --output DIR`");
  }
  return text + ".";
}

std::string NextStep(const v1::Job& job) {
  if (job.past()) return "It was deleted: this is its record.";
  switch (job.state()) {
    case v1::JOB_STATE_SUCCEEDED:
      return HowToFetch(job);
    case v1::JOB_STATE_FAILED:
      return absl::StrCat("Read its log with `mpsctl logs ", job.id(),
                          "`, queue it again with `mpsctl retry ", job.id(),
                          "`.");
    case v1::JOB_STATE_CANCELLED:
      return absl::StrCat("See what it saved with `mpsctl checkpoints ",
                          job.id(), "`.");
    default:
      return absl::StrCat("Follow it with `mpsctl watch ", job.id(), "`.");
  }
}

void PrintJob(const v1::Job& job, const Console& console) {
  std::ostream& out = console.out;
  out << "Job " << job.id() << '\n';
  Field(out, "name", Printable(job.name()));
  if (IsStudy(job.kind())) Field(out, "kind", KindName(job.kind()));
  Field(out, "state", StateText(job, console));
  Field(out, job.held() ? "held" : "waits for", Printable(job.hold()));
  Field(out, "paused", PauseText(job.pause(), console.terminal.clock->Now()));
  Field(out, "owner", Printable(job.owner()));
  Field(out, "labels", Printable(JobLabelsText(job.labels())));
  Field(out, "tags", Printable(absl::StrJoin(job.tags(), ", ")));
  if (!job.past()) Field(out, "priority", absl::StrCat(job.priority()));
  Times(job, console);
  ProgressFields(job, out);
  LossFields(job, out);
  if (job.device_seconds() > 0) {
    Field(out, "device time", Seconds(job.device_seconds()));
  }
  Field(out, "last exit", ExitText(job));
  Field(out, "message", job.message());
  for (const std::string& warning : job.warnings()) {
    Field(out, "warning", Printable(warning));
  }
  Field(out, OutputName(job).c_str(), job.output_path());
  PrintMetrics(job, out);
  PrintConfusionMatrix(job.confusion_matrix_json(), out);
}

// Shows the job with its study's result, if any, and its record.
void PrintShown(const v1::GetRecordResponse& shown, const Console& console) {
  const v1::Job& job = shown.job();
  const bool has_result = IsStudy(job.kind()) && !job.past() &&
                          job.state() == v1::JOB_STATE_SUCCEEDED;
  v1::StudyResult result;
  grpc::Status found;
  if (has_result) found = GetStudyResult(console, job.id(), &result);
  if (console.json) {
    nlohmann::ordered_json json = ToJson(job);
    if (shown.has_record()) json["record"] = ToJson(shown.record());
    if (has_result && found.ok()) json["result"] = ToJson(result);
    console.PrintJson(json);
  } else {
    PrintJob(job, console);
    if (has_result && found.ok()) ShowStudy(console, result, PrintAnyStudy);
    if (!has_result) console.out << NextStep(job) << '\n';
    if (shown.has_record()) PrintRecord(console, shown);
  }
  if (found.ok()) return;
  console.err << "mpsctl: the study's result cannot be read: "
              << Printable(found.error_message()) << '\n';
}

ExitCode Show(const std::string& text, bool spec, const Console& console) {
  ExitCode code;
  auto id = ResolveJobId(console, text, &code, FewestIdCharacters::kLooks,
                         PastJobs::kToo);
  if (!id) return code;
  v1::GetRecordResponse shown;
  const grpc::Status status = FetchRecord(console, *id, &shown);
  if (!status.ok()) return console.Fail(status);
  const v1::Job& job = shown.job();
  if (spec) {
    console.out << (console.terminal.is_tty
                        ? base::Printable(job.spec_json(), base::Breaks::kKeep)
                        : job.spec_json())
                << '\n';
  } else {
    PrintShown(shown, console);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddShow(Command& app, Action* action) {
  struct Options {
    std::string id;
    bool spec = false;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "show",
      "Show one job in full, what a study found, and the record of the run;\n"
      "also for a deleted job");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_flag("--spec", options->spec,
                 "Only its job.json, with every default filled in");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Show(options->id, options->spec, console);
    };
  });
}

}  // namespace mpsd::client
