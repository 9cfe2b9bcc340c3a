// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/make_record.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/read_roots.h"
#include "core/base/small_file.h"
#include "core/spec/train_spec.h"
#include "mpsd/v1/study.pb.h"
#include "nlohmann/json.hpp"
#include "server/jobs/request_file.h"
#include "server/logbook/read_manifest.h"
#include "server/logbook/sum_attempts.h"

namespace mpsd::logbook {
namespace {

constexpr size_t kManifestBytes = 4 << 20;
constexpr size_t kMessageBytes = 2000;
constexpr size_t kSpecBytes = 64 << 10;
constexpr int kFindings = 50;
constexpr int kInputs = 100;
constexpr size_t kWarnings = 10, kWarningBytes = 500;
// What the index of texts gets of one record.
constexpr size_t kTextsBytes = 16 << 10;

// Bytes that are no UTF-8 would make a message that nobody can read.
std::string Clean(const std::string& text) { return base::Printable(text); }

// A spec on one line; "" where it is none, or too long.
std::string SpecText(const std::string& text) {
  if (text.size() > kSpecBytes) return "";
  using Json = nlohmann::ordered_json;
  const Json spec = base::ParseTree<Json>(text);
  if (!spec.is_object()) return "";
  return spec.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void SetTime(absl::Time time, google::protobuf::Timestamp* stamp) {
  const int64_t micros = absl::ToUnixMicros(time);
  int64_t seconds = micros / 1'000'000, rest = micros % 1'000'000;
  if (rest < 0) --seconds, rest += 1'000'000;
  stamp->set_seconds(seconds);
  stamp->set_nanos(static_cast<int32_t>(rest * 1000));
}

void AddIdentity(const jobs::Job& job, v1::Record& record) {
  record.set_id(job.id);
  record.set_kind(static_cast<v1::JobKind>(job.kind));
  record.set_state(static_cast<v1::JobState>(job.state));
  if (job.exit_reason) {
    record.set_exit_reason(std::string(jobs::Name(*job.exit_reason)));
  }
  record.set_message(base::Shortened(
      base::Printable(job.message, base::Breaks::kKeep), kMessageBytes));
  record.set_name(Clean(job.name));
  record.set_owner(Clean(job.owner));
  for (const auto& [key, value] : job.labels) {
    (*record.mutable_labels())[Clean(key)] = Clean(value);
  }
  record.set_model(Clean(job.model));
  record.set_spec_json(SpecText(job.spec_json));
  record.set_sweep_id(Clean(job.sweep_id));
  SetTime(job.create_time, record.mutable_create_time());
  if (job.start_time) SetTime(*job.start_time, record.mutable_start_time());
  SetTime(job.end_time.value_or(job.create_time), record.mutable_end_time());
  record.set_request_hash(Clean(job.request_hash));
  record.set_attempt_count(job.attempt);
  for (const std::string& warning : job.warnings) {
    if (record.warnings_size() >= static_cast<int>(kWarnings)) break;
    record.add_warnings(base::Shortened(Clean(warning), kWarningBytes));
  }
}

void AddResults(const jobs::Job& job, v1::Record& record) {
  if (job.train_loss) record.set_train_loss(*job.train_loss);
  if (job.eval_loss_before) record.set_eval_loss_before(*job.eval_loss_before);
  if (job.eval_loss_after) record.set_eval_loss(*job.eval_loss_after);
  for (const auto& [name, value] : job.metrics) {
    (*record.mutable_metrics())[Clean(name)] = value;
  }
  if (job.best_evaluation) {
    v1::Evaluated& best = *record.mutable_best_evaluation();
    best.set_step(job.best_evaluation->step);
    best.set_eval_loss(job.best_evaluation->eval_loss);
    for (const auto& [name, value] : job.best_evaluation->metrics) {
      (*best.mutable_metrics())[Clean(name)] = value;
    }
  }
  v1::RunDurations& durations = *record.mutable_durations();
  durations.set_device_seconds(absl::ToDoubleSeconds(job.device_time));
  if (job.end_time && *job.end_time >= job.create_time) {
    durations.set_total_seconds(
        absl::ToDoubleSeconds(*job.end_time - job.create_time));
  }
}

void AddSpec(const jobs::Job& job, v1::Record& record) {
  const absl::StatusOr<spec::TrainSpec> spec =
      spec::ParseTrainSpec(job.spec_json, "");
  if (!spec.ok()) return;
  v1::RunShape& shape = *record.mutable_shape();
  constexpr const char* kTasks[] = {"CAUSAL_LM", "SEQ_CLS", "IMAGE_CLS"};
  shape.set_task(kTasks[static_cast<int>(spec->task)]);
  shape.set_batch_size(spec->training.per_device_train_batch_size);
  shape.set_gradient_accumulation_steps(
      spec->training.gradient_accumulation_steps);
  if (spec->task != spec::Task::kImageCls) {
    shape.set_max_length(spec->training.max_length);
  }
  record.mutable_fallbacks()->set_allowed(spec->allow_cpu_fallback);
}

// What the last progress tells, where run.json does not.
void AddProgress(const jobs::Job& job, v1::Record& record) {
  record.mutable_memory()->set_estimated_bytes(job.memory_bytes);
  if (!job.progress) return;
  const jobs::Progress& progress = *job.progress;
  record.set_steps(progress.step);
  v1::RunMemory& memory = *record.mutable_memory();
  if (progress.memory.footprint_bytes) {
    memory.set_footprint_bytes(*progress.memory.footprint_bytes);
  }
  if (progress.memory.peak_allocated_bytes) {
    memory.set_peak_allocated_bytes(std::max(
        memory.peak_allocated_bytes(), *progress.memory.peak_allocated_bytes));
  }
  if (record.environment().device().empty()) {
    record.mutable_environment()->set_device(Clean(progress.device));
  }
  if (record.shape().total_steps() == 0) {
    record.mutable_shape()->set_total_steps(progress.total_steps);
  }
  if (record.fallbacks().ops().empty()) {
    for (const auto& [op, count] : progress.cpu_fallback_ops) {
      (*record.mutable_fallbacks()->mutable_ops())[Clean(op)] = count;
    }
  }
}

void AddRequest(const std::filesystem::path& folder, v1::Record& record) {
  const absl::StatusOr<jobs::SubmitRequest> request =
      jobs::RequestFile::Read(folder);
  if (!request.ok()) return;
  // Its paths are the user's, and so the same for two jobs that ask for the
  // same.
  record.set_spec_json(SpecText(request->spec_json));
  if (request->round_trip_seconds) {
    record.mutable_durations()->set_round_trip_seconds(
        *request->round_trip_seconds);
  }
  if (request->inputs.empty()) return;
  v1::RunData& data = *record.mutable_data();
  data.set_input_count(static_cast<int>(request->inputs.size()));
  for (const jobs::InputFile& input : request->inputs) {
    if (data.inputs_size() >= kInputs) break;
    v1::DataFile& file = *data.add_inputs();
    file.set_path(Clean(input.path));
    file.set_sha256(Clean(input.sha256));
  }
}

// The type of the file system below each place that the run read or wrote.
void AddFileSystems(const RecordSources& sources, v1::Record& record) {
  if (sources.mounts.empty()) return;
  const auto add = [&](const char* what, const std::string& path) {
    if (path.empty() || path.front() != '/') return;
    const std::optional<host::Mount> mount =
        host::MountOf(path, sources.mounts);
    if (!mount) return;
    (*record.mutable_environment()->mutable_file_systems())[what] =
        Clean(mount->type);
  };
  add("state", sources.folder.string());
  const absl::StatusOr<spec::TrainSpec> spec =
      spec::ParseTrainSpec(sources.job.spec_json, "");
  if (!spec.ok()) return;
  add("model", spec->model);
  if (!spec->dataset.train.empty()) add("data", spec->dataset.train.front());
}

void AddStudy(const RecordSources& sources, v1::Record& record) {
  if (!jobs::IsStudy(sources.job.kind) ||
      sources.job.state != jobs::State::kSucceeded) {
    return;
  }
  const base::ReadRoots own({sources.job.output_path});  // no link leads out
  const absl::StatusOr<std::string> json = base::ReadSmallFile(
      std::filesystem::path(sources.job.output_path) / "result.json",
      limits::kStudyResultBytes, &own);
  if (!json.ok()) return;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a newer worker's
  v1::StudyResult result;
  if (!JsonStringToMessage(*json, &result, options).ok()) return;
  record.set_verdict(result.verdict());
  for (v1::Finding& finding : *result.mutable_findings()) {
    if (record.findings_size() >= kFindings) break;
    *record.add_findings() = std::move(finding);
  }
}

// --- What the store keeps.

FieldValue TextOrNone(const std::string& text) {
  if (text.empty()) return std::monostate();
  return text;
}

FieldValue NumberOrNone(bool told, double value) {
  if (!told) return std::monostate();
  return value;
}

FieldValue IntOrNone(bool told, int64_t value) {
  if (!told) return std::monostate();
  return value;
}

// The words of the states that were seen, with spaces between them.
template <typename Words>
FieldValue WordsOf(const Words& words, const char* more = nullptr) {
  std::string text;
  for (const auto& word : words) {
    absl::StrAppend(&text, text.empty() ? "" : " ", word);
  }
  if (more != nullptr) absl::StrAppend(&text, text.empty() ? "" : " ", more);
  return TextOrNone(text);
}

FieldValue NumberOf(const v1::Record& r, std::string_view column) {
  const v1::RunDurations& d = r.durations();
  if (column == "eval_loss")
    return NumberOrNone(r.has_eval_loss(), r.eval_loss());
  if (column == "best_loss") {
    return NumberOrNone(r.has_best_evaluation(),
                        r.best_evaluation().eval_loss());
  }
  if (column == "train_loss") {
    return NumberOrNone(r.has_train_loss(), r.train_loss());
  }
  if (column == "queue_seconds") {
    return NumberOrNone(d.has_queue_seconds(), d.queue_seconds());
  }
  if (column == "load_seconds") {
    return NumberOrNone(d.has_load_seconds(), d.load_seconds());
  }
  if (column == "first_step_seconds") {
    return NumberOrNone(d.has_first_step_seconds(), d.first_step_seconds());
  }
  if (column == "step_seconds") {
    return NumberOrNone(d.has_steady_step_seconds(), d.steady_step_seconds());
  }
  if (column == "device_seconds") {
    return NumberOrNone(r.has_durations(), d.device_seconds());
  }
  if (column == "round_trip_seconds") {
    return NumberOrNone(d.has_round_trip_seconds(), d.round_trip_seconds());
  }
  if (column == "pause_seconds") {
    return NumberOrNone(r.has_pauses(), r.pauses().seconds());
  }
  return std::monostate();
}

FieldValue CountOf(const v1::Record& r, std::string_view column) {
  const v1::RunShape& shape = r.shape();
  if (column == "kind") return int64_t{r.kind()};
  if (column == "state") return IntOrNone(r.state() != 0, r.state());
  if (column == "verdict") return IntOrNone(r.verdict() != 0, r.verdict());
  if (column == "steps") return IntOrNone(r.kind() != 0, r.steps());
  if (column == "batch") {
    return IntOrNone(shape.batch_size() > 0,
                     shape.batch_size() * shape.gradient_accumulation_steps());
  }
  if (column == "attempts") return IntOrNone(r.kind() != 0, r.attempt_count());
  if (column == "fallbacks") {
    return IntOrNone(r.has_fallbacks(), r.fallbacks().ops_size());
  }
  if (column == "pauses") return IntOrNone(r.has_pauses(), r.pauses().count());
  if (column == "parameters") {
    return IntOrNone(shape.has_trainable_parameters(),
                     shape.trainable_parameters());
  }
  if (column == "row_count") {
    return IntOrNone(r.data().has_rows(), r.data().rows());
  }
  if (column == "tokens") {
    return IntOrNone(r.data().has_tokens(), r.data().tokens());
  }
  if (column == "peak_bytes") {
    return IntOrNone(r.memory().has_peak_allocated_bytes(),
                     r.memory().peak_allocated_bytes());
  }
  if (column == "footprint_bytes") {
    return IntOrNone(r.memory().has_peak_footprint_bytes(),
                     r.memory().peak_footprint_bytes());
  }
  if (column == "swap_bytes") {
    return IntOrNone(r.conditions().has_most_swap_bytes(),
                     r.conditions().most_swap_bytes());
  }
  return std::monostate();
}

FieldValue TextOf(const v1::Record& r, std::string_view column) {
  const v1::RunEnvironment& e = r.environment();
  if (column == "name") return TextOrNone(r.name());
  if (column == "model") return TextOrNone(r.model());
  if (column == "device") return TextOrNone(e.device());
  if (column == "reason") return TextOrNone(r.exit_reason());
  if (column == "task") return TextOrNone(r.shape().task());
  if (column == "dtype") return TextOrNone(e.dtype());
  if (column == "torch") return TextOrNone(e.torch_version());
  if (column == "version") return TextOrNone(e.worker_version());
  if (column == "build") return TextOrNone(e.daemon_commit());
  if (column == "platform") {
    if (e.operating_system().empty()) return TextOrNone(e.processor());
    return absl::StrCat(e.operating_system(), " ", e.processor());
  }
  if (column == "sweep") return TextOrNone(r.sweep_id());
  if (column == "power") {
    return WordsOf(r.conditions().power_sources(),
                   r.conditions().low_power_mode() ? "low_power" : nullptr);
  }
  if (column == "thermal") return WordsOf(r.conditions().thermal_levels());
  if (column == "pressure") return WordsOf(r.conditions().memory_pressures());
  if (column == "request") return TextOrNone(r.request_hash());
  if (column == "data") return TextOrNone(r.data().train_sha256());
  return std::monostate();
}

std::string TextsOf(const v1::Record& r) {
  const v1::RunEnvironment& e = r.environment();
  std::string texts;
  const auto add = [&texts](const std::string& text) {
    if (text.empty() || texts.size() > kTextsBytes) return;
    absl::StrAppend(&texts, texts.empty() ? "" : "\n", text);
  };
  for (const std::string* text :
       {&r.id(), &r.name(), &r.owner(), &r.model(), &r.exit_reason(),
        &r.sweep_id(), &e.torch_version(), &e.operating_system(),
        &e.processor(), &e.device_description()}) {
    add(*text);
  }
  for (const auto& [key, value] : r.labels())
    add(absl::StrCat(key, "=", value));
  for (const auto& file : r.data().inputs()) add(file.path());
  for (const auto& [op, count] : r.fallbacks().ops()) add(op);
  for (const v1::Finding& finding : r.findings()) {
    add(absl::StrCat(finding.name(), " ", finding.found()));
  }
  add(r.message());
  for (const std::string& warning : r.warnings()) add(warning);
  return base::Shortened(texts, kTextsBytes);
}

}  // namespace

v1::Record MakeRecord(const RecordSources& sources) {
  const jobs::Job& job = sources.job;
  v1::Record record;
  AddIdentity(job, record);
  AddSpec(job, record);
  const absl::StatusOr<std::string> manifest =
      base::ReadSmallFile(sources.output_dir / "run.json", kManifestBytes);
  if (manifest.ok()) ReadManifest(*manifest, record);
  AddProgress(job, record);
  AddRequest(sources.folder, record);
  AddFileSystems(sources, record);
  AddStudy(sources, record);
  SumAttempts(sources.attempts, record);
  AddResults(job, record);
  v1::RunEnvironment& environment = *record.mutable_environment();
  environment.set_daemon_version(sources.daemon_version);
  environment.set_daemon_commit(sources.daemon_commit);
  return record;
}

v1::Record MakeEntry(const std::string& id, const std::string& owner,
                     absl::Time time) {
  v1::Record record;
  record.set_id(id);
  record.set_owner(owner);
  SetTime(time, record.mutable_create_time());
  SetTime(time, record.mutable_end_time());
  return record;
}

NewRecord ToRow(const v1::Record& record) {
  NewRecord row;
  row.id = record.id();
  row.owner = record.owner();
  row.end_time = absl::FromUnixSeconds(record.end_time().seconds()) +
                 absl::Nanoseconds(record.end_time().nanos());
  for (const RecordField& field : kRecordFields) {
    FieldValue value = TextOf(record, field.column);
    if (value == FieldValue()) value = CountOf(record, field.column);
    if (value == FieldValue()) value = NumberOf(record, field.column);
    row.values.push_back(std::move(value));
  }
  for (const auto& [name, value] : record.metrics()) {
    // SQLite knows no NaN.
    if (!std::isnan(value)) row.metrics[name] = value;
  }
  row.labels.insert(record.labels().begin(), record.labels().end());
  row.texts = TextsOf(record);
  row.body = record.SerializeAsString();
  return row;
}

v1::Record FromRow(const StoredRecord& stored) {
  v1::Record record;
  if (!record.ParseFromString(stored.body)) {
    record.Clear();
    record.set_owner(Clean(stored.owner));
  }
  record.set_id(stored.id);
  record.set_number(stored.number);
  for (const std::string& tag : stored.tags) record.add_tags(Clean(tag));
  for (const Note& note : stored.notes) {
    v1::RecordNote& out = *record.add_notes();
    SetTime(note.time, out.mutable_time());
    out.set_author(Clean(note.author));
    out.set_text(base::Printable(note.text, base::Breaks::kKeep));
    out.set_rejected(note.rejected);
  }
  return record;
}

}  // namespace mpsd::logbook
