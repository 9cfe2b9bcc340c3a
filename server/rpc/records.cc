// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/records.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/host/host.h"
#include "core/spec/train_spec.h"
#include "mpsd/v1/study.pb.h"
#include "nlohmann/json.hpp"
#include "server/rpc/convert.h"

namespace mpsd::records {
namespace {

// Of a reader, for the writes of others.
constexpr absl::Duration kPatience = absl::Milliseconds(200);
// Recent steps in the reported median.
constexpr size_t kSteps = 101;
// Sums of attempts that wait for a store that cannot be written.
constexpr size_t kMostEnded = 1000;
// Recent input within this time means that the machine is in use.
constexpr double kActiveSeconds = 60;
// Between two readings the machine may have slept.
constexpr absl::Duration kLongestGap = absl::Minutes(1);

double Median(std::deque<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename Levels, typename Names>
void AddNames(const Levels& levels, Names* names) {
  for (const auto& level : levels) names->Add(std::string(host::Name(level)));
}

}  // namespace

std::vector<SeenAttempt> RunWatch::TakeChanged(bool now) {
  absl::MutexLock lock(&mutex_);
  std::vector<SeenAttempt> rows(std::make_move_iterator(ended_.begin()),
                                std::make_move_iterator(ended_.end()));
  ended_.clear();
  const absl::Duration time = clock_.Monotonic();
  if (current_ && changed_ && (now || time - given_at_ >= options_.interval)) {
    rows.push_back(RowOfCurrent());
    changed_ = false;
    given_at_ = time;
  }
  return rows;
}

void RunWatch::Return(std::vector<SeenAttempt> rows) {
  absl::MutexLock lock(&mutex_);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const bool goes_on = current_ && current_->job_id == row->job_id &&
                         current_->start == row->start;
    if (goes_on) {
      changed_ = true;
      given_at_ = -absl::InfiniteDuration();
      continue;
    }
    const bool superseded = std::any_of(
        ended_.begin(), ended_.end(), [&](const SeenAttempt& other) {
          return other.job_id == row->job_id && other.start == row->start;
        });
    if (!superseded && ended_.size() < kMostEnded) {
      ended_.push_front(std::move(*row));
    }
  }
}

SeenAttempt RunWatch::RowOfCurrent() const {
  const Attempt& attempt = *current_;
  v1::RunAttempt sum = attempt.sum;
  v1::RunDurations& durations = *sum.mutable_durations();
  const auto spent = attempt.phases.Spent(clock_.Monotonic());
  const auto seconds = [&](jobs::Phase phase) {
    const auto found = spent.find(phase);
    return found == spent.end() ? 0 : absl::ToDoubleSeconds(found->second);
  };
  // The duration of loading is unknown until a step or an evaluation has
  // arrived.
  if (sum.steps() > 0) {
    durations.set_load_seconds(seconds(jobs::Phase::kLoad));
    durations.set_train_seconds(seconds(jobs::Phase::kTrain));
    durations.set_data_wait_seconds(seconds(jobs::Phase::kDataWait));
  }
  if (const double s = seconds(jobs::Phase::kEvaluate); s > 0) {
    durations.set_evaluation_seconds(s);
  }
  if (const double s = seconds(jobs::Phase::kSave); s > 0) {
    durations.set_save_seconds(s);
  }
  if (!attempt.steps.empty()) {
    durations.set_steady_step_seconds(Median(attempt.steps));
  }
  v1::RunConditions& seen = *sum.mutable_conditions();
  AddNames(attempt.power, seen.mutable_power_sources());
  AddNames(attempt.thermal, seen.mutable_thermal_levels());
  AddNames(attempt.pressure, seen.mutable_memory_pressures());
  if (attempt.utilization_count > 0) {
    seen.set_gpu_utilization_ratio(attempt.utilization_sum /
                                   attempt.utilization_count);
  }
  return {attempt.job_id, attempt.start, std::move(sum)};
}

void RunWatch::CountPause() {
  Attempt& attempt = *current_;
  if (!attempt.paused_since) return;
  const absl::Duration now = clock_.Monotonic();
  const double seconds = absl::ToDoubleSeconds(now - *attempt.paused_since);
  attempt.paused_since = now;
  v1::RunPauses& pauses = *attempt.sum.mutable_pauses();
  pauses.set_seconds(pauses.seconds() + seconds);
  for (const jobs::PauseReason reason : attempt.paused_for) {
    (*pauses.mutable_seconds_by_reason())[std::string(jobs::Name(reason))] +=
        seconds;
  }
}

void RunWatch::Finish() {
  if (ended_.size() < kMostEnded) ended_.push_back(RowOfCurrent());
  current_.reset();
  changed_ = false;
}

void RunWatch::JobCounts(const std::map<jobs::State, int64_t>& jobs) {
  next_.JobCounts(jobs);
}

void RunWatch::QueueChanged(const jobs::QueueDepth& depth) {
  next_.QueueChanged(depth);
}

void RunWatch::JobStarted(const jobs::StartedJob& job) {
  next_.JobStarted(job);
  absl::MutexLock lock(&mutex_);
  if (current_) Finish();
  current_.emplace(job.id, clock_.Now(), clock_.Monotonic());
  v1::RunAttempt& sum = current_->sum;
  rpc::ToProto(current_->start, *sum.mutable_start_time());
  sum.set_torch_version(options_.torch_version);
  sum.set_daemon_version(options_.version);
  sum.set_daemon_commit(options_.commit);
  sum.mutable_durations()->set_queue_seconds(
      absl::ToDoubleSeconds(job.queue_wait));
  changed_ = true;
  given_at_ = -absl::InfiniteDuration();
}

void RunWatch::DeviceOpened(const std::string& job_id,
                            const std::string& device) {
  next_.DeviceOpened(job_id, device);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  current_->sum.set_device(device);
  changed_ = true;
}

void RunWatch::StageBegan(const std::string& stage) {
  next_.StageBegan(stage);
  absl::MutexLock lock(&mutex_);
  if (current_) current_->phases.Staged(stage, clock_.Monotonic());
}

void RunWatch::WorkerHalts(bool halts) {
  next_.WorkerHalts(halts);
  absl::MutexLock lock(&mutex_);
  if (!current_ || halts == current_->paused_since.has_value()) return;
  const absl::Duration now = clock_.Monotonic();
  if (halts) {
    v1::RunPauses& pauses = *current_->sum.mutable_pauses();
    pauses.set_count(pauses.count() + 1);
    current_->paused_since = now;
    current_->paused_for = reasons_;
    current_->phases.Halted(now);
  } else {
    CountPause();
    current_->paused_since.reset();
    current_->phases.Resumed(now);
  }
  changed_ = true;
}

void RunWatch::StepFinished(const std::string& job_id,
                            const jobs::Progress& progress) {
  next_.StepFinished(job_id, progress);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  v1::RunAttempt& sum = current_->sum;
  current_->phases.Stepped(progress, clock_.Monotonic());
  if (sum.steps() == 0) {
    sum.mutable_durations()->set_first_step_seconds(progress.seconds);
  } else if (std::isfinite(progress.seconds)) {
    current_->steps.push_back(progress.seconds);
    if (current_->steps.size() > kSteps) current_->steps.pop_front();
  }
  sum.set_steps(sum.steps() + 1);
  sum.set_device(progress.device);
  // 0 where the worker could not read it.
  if (const auto& bytes = progress.memory.footprint_bytes;
      bytes.value_or(0) > 0) {
    sum.set_peak_footprint_bytes(std::max(sum.peak_footprint_bytes(), *bytes));
  }
  changed_ = true;
}

void RunWatch::Evaluated(const std::string& job_id, const std::string& device,
                         const jobs::Evaluated& evaluated) {
  next_.Evaluated(job_id, device, evaluated);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  current_->phases.Evaluated(evaluated.seconds, clock_.Monotonic());
  changed_ = true;
}

void RunWatch::CheckpointWritten(const std::string& job_id,
                                 const std::string& device, double seconds) {
  next_.CheckpointWritten(job_id, device, seconds);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  current_->phases.Saved(seconds, clock_.Monotonic());
  changed_ = true;
}

void RunWatch::WorkerExited(jobs::ExitReason reason) {
  next_.WorkerExited(reason);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  CountPause();
  current_->sum.set_exit_reason(std::string(jobs::Name(reason)));
  rpc::ToProto(clock_.Now(), *current_->sum.mutable_end_time());
  Finish();
}

void RunWatch::JobReturned(jobs::ExitReason reason) {
  next_.JobReturned(reason);
}

void RunWatch::HostRead(const host::Reading& reading) {
  next_.HostRead(reading);
  absl::MutexLock lock(&mutex_);
  if (!current_) return;
  const absl::Duration now = clock_.Monotonic();
  const absl::Duration gap =
      std::min(now - current_->read_at.value_or(now), kLongestGap);
  current_->read_at = now;
  v1::RunConditions& seen = *current_->sum.mutable_conditions();
  seen.set_readings(seen.readings() + 1);
  if (reading.power_source) current_->power.insert(*reading.power_source);
  if (reading.thermal) current_->thermal.insert(*reading.thermal);
  if (reading.memory_pressure) {
    current_->pressure.insert(*reading.memory_pressure);
  }
  if (reading.battery_ratio) {
    seen.set_least_battery_ratio(
        seen.has_least_battery_ratio()
            ? std::min(seen.least_battery_ratio(), *reading.battery_ratio)
            : *reading.battery_ratio);
  }
  if (reading.low_power_mode) {
    seen.set_low_power_mode(seen.low_power_mode() || *reading.low_power_mode);
  }
  if (reading.swap_used_bytes) {
    const int64_t swap = *reading.swap_used_bytes;
    if (!seen.has_first_swap_bytes()) seen.set_first_swap_bytes(swap);
    seen.set_most_swap_bytes(std::max(seen.most_swap_bytes(), swap));
  }
  if (reading.user_idle_seconds) {
    const bool active = *reading.user_idle_seconds < kActiveSeconds;
    seen.set_user_active_seconds(seen.user_active_seconds() +
                                 (active ? absl::ToDoubleSeconds(gap) : 0));
  }
  if (reading.gpu_utilization_ratio) {
    current_->utilization_sum += *reading.gpu_utilization_ratio;
    ++current_->utilization_count;
  }
  if (reading.gpu_resets) {
    if (!current_->first_resets) current_->first_resets = reading.gpu_resets;
    seen.set_gpu_resets(*reading.gpu_resets - *current_->first_resets);
  }
  changed_ = true;
}

void RunWatch::Paused(const jobs::PauseReasons& reasons) {
  next_.Paused(reasons);
  absl::MutexLock lock(&mutex_);
  reasons_ = reasons;
  // A worker that resumes a moment after the last reason is over was held for
  // that reason.
  if (!current_ || !current_->paused_since || reasons.empty()) return;
  CountPause();
  current_->paused_for = reasons;
  changed_ = true;
}

void RunWatch::Held(const jobs::Holds& holds) { next_.Held(holds); }

void RunWatch::JobEnded(const std::string& job_id, jobs::State state) {
  next_.JobEnded(job_id, state);
  options_.on_end();
}

void RunWatch::JobDeleted(const std::string& job_id) {
  next_.JobDeleted(job_id);
}

// --- what is read

namespace {

constexpr size_t kManifestBytes = 4 << 20;
constexpr size_t kMessageBytes = 2000;
constexpr size_t kJsonBytes = 64 << 10;  // of spec_json and run_json
constexpr int kFindings = 50;
constexpr int kMostInputs = 100;
constexpr size_t kWarnings = 10, kWarningBytes = 500;
constexpr size_t kTextsBytes = 16 << 10;

// Bytes that are not UTF-8 would make an unreadable message.
std::string Clean(const std::string& text) { return base::Printable(text); }

// An object on one line; "" if it is not one, or too long.
std::string ObjectText(const std::string& text) {
  if (text.size() > kJsonBytes) return "";
  using Json = nlohmann::ordered_json;
  const Json object = base::ParseTree<Json>(text);
  if (!object.is_object()) return "";
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AddIdentity(const jobs::Job& job, v1::JobRecord& record) {
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
  record.set_spec_json(ObjectText(job.spec_json));
  rpc::ToProto(job.create_time, *record.mutable_create_time());
  if (job.start_time)
    rpc::ToProto(*job.start_time, *record.mutable_start_time());
  if (job.end_time) rpc::ToProto(*job.end_time, *record.mutable_end_time());
  record.set_request_hash(Clean(job.request_hash));
  record.set_attempt_count(job.attempt);
  for (const std::string& warning : job.warnings) {
    if (record.warnings_size() >= static_cast<int>(kWarnings)) break;
    record.add_warnings(base::Shortened(Clean(warning), kWarningBytes));
  }
}

void AddResults(const jobs::Job& job, v1::JobRecord& record) {
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

void AddSpec(const jobs::Job& job, v1::JobRecord& record) {
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

// The last progress, for what run.json lacks.
void AddProgress(const jobs::Job& job, v1::JobRecord& record) {
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

void AddRequest(const std::filesystem::path& folder, v1::JobRecord& record) {
  const absl::StatusOr<jobs::SubmitRequest> request =
      jobs::RequestFile::Read(folder);
  if (!request.ok()) return;
  // Its paths are the user's, and so the same for two jobs that request the
  // same.
  record.set_spec_json(ObjectText(request->spec_json));
  if (request->round_trip_seconds) {
    record.mutable_durations()->set_round_trip_seconds(
        *request->round_trip_seconds);
  }
  if (request->inputs.empty()) return;
  v1::RunData& data = *record.mutable_data();
  data.set_input_count(static_cast<int>(request->inputs.size()));
  for (const jobs::InputFile& input : request->inputs) {
    if (data.inputs_size() >= kMostInputs) break;
    v1::DataFile& file = *data.add_inputs();
    file.set_path(Clean(input.path));
    file.set_sha256(Clean(input.sha256));
  }
}

void AddStudy(const RecordSources& sources, v1::JobRecord& record) {
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

// --- run.json

constexpr size_t kTextBytes = 1024;  // of a name, a value
constexpr size_t kModelFiles = 100;  // digests of a model
constexpr size_t kVariables = 100;   // of an environment
constexpr size_t kHashBytes = 64;    // SHA-256, in hex

// The member, or null if there is none.
const nlohmann::json& At(const nlohmann::json& object, const char* name) {
  static const nlohmann::json none;
  if (!object.is_object()) return none;
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string TextOf(const nlohmann::json& value) {
  if (!value.is_string()) return "";
  return base::Shortened(base::Printable(value.get_ref<const std::string&>()),
                         kTextBytes);
}

std::optional<int64_t> IntOf(const nlohmann::json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

std::string HashOf(const nlohmann::json& value) {
  const std::string hash = TextOf(value);
  return hash.size() == kHashBytes ? hash : "";
}

// The kernels that ran, each once: {"training": {"forward": "flash" …
std::string AttentionOf(const nlohmann::json& attention) {
  std::set<std::string> names;
  const nlohmann::json& training = At(attention, "training");
  for (const nlohmann::json* name :
       {&At(training, "forward"), &At(training, "backward"),
        &At(attention, "evaluation")}) {
    if (name->is_string()) names.insert(TextOf(*name));
  }
  return absl::StrJoin(names, ", ");
}

void ReadEnvironment(const nlohmann::json& run, v1::RunEnvironment& out) {
  out.set_torch_version(TextOf(At(run, "torch_version")));
  out.set_worker_version(TextOf(At(run, "mpsd_version")));
  out.set_operating_system(TextOf(At(run, "operating_system")));
  out.set_processor(TextOf(At(run, "processor")));
  out.set_device(TextOf(At(run, "device")));
  out.set_device_description(TextOf(At(run, "device_description")));
  out.set_dtype(TextOf(At(run, "dtype")));
  out.set_attention(AttentionOf(At(run, "attention")));
  out.set_gradients(TextOf(At(run, "gradients")));
  const nlohmann::json& variables = At(run, "environment");
  if (!variables.is_object()) return;
  for (const auto& [name, value] : variables.items()) {
    if (out.variables_size() >= static_cast<int>(kVariables)) break;
    if (!value.is_string()) continue;
    (*out.mutable_variables())[TextOf(nlohmann::json(name))] = TextOf(value);
  }
}

void ReadShape(const nlohmann::json& run, v1::RunShape& out) {
  if (const auto rows = IntOf(At(At(run, "micro_batch"), "rows"))) {
    out.set_chosen_batch_size(*rows);
  }
  if (const auto count = IntOf(At(run, "trainable_parameters"))) {
    out.set_trainable_parameters(*count);
  }
  if (const auto length = IntOf(At(run, "max_length"))) {
    out.set_max_length(*length);
  }
  if (const auto steps = IntOf(At(run, "total_steps"))) {
    out.set_total_steps(*steps);
  }
}

void ReadMemory(const nlohmann::json& memory, v1::RunMemory& out) {
  if (const auto bytes = IntOf(At(memory, "peak_allocated_bytes"))) {
    out.set_peak_allocated_bytes(*bytes);
  }
  if (const auto bytes = IntOf(At(memory, "peak_driver_allocated_bytes"))) {
    out.set_peak_driver_allocated_bytes(*bytes);
  }
  if (const auto bytes = IntOf(At(memory, "peak_footprint_bytes"))) {
    out.set_peak_footprint_bytes(*bytes);
  }
}

void ReadFallbacks(const nlohmann::json& ops, v1::RunFallbacks& out) {
  if (!ops.is_object()) return;
  for (const auto& [op, count] : ops.items()) {
    if (out.ops_size() >= static_cast<int>(limits::kFallbackOps)) break;
    if (const auto times = IntOf(count)) {
      (*out.mutable_ops())[TextOf(nlohmann::json(op))] = *times;
    }
  }
}

void ReadData(const nlohmann::json& run, v1::RunData& out) {
  const nlohmann::json& train = At(run, "train");
  out.set_train_sha256(HashOf(At(train, "sha256")));
  out.set_eval_sha256(HashOf(At(At(run, "eval"), "sha256")));
  if (const auto rows = IntOf(At(train, "rows"))) out.set_rows(*rows);
  if (const auto tokens = IntOf(At(train, "tokens"))) out.set_tokens(*tokens);
  const nlohmann::json& files = At(At(run, "model"), "sha256");
  if (!files.is_object()) return;
  for (const auto& [file, hash] : files.items()) {
    if (out.model_sha256_size() >= static_cast<int>(kModelFiles)) break;
    if (const std::string digest = HashOf(hash); !digest.empty()) {
      (*out.mutable_model_sha256())[TextOf(nlohmann::json(file))] = digest;
    }
  }
}

// --- attempts

constexpr size_t kShownAttempts = 32;

template <typename Names>
void Unite(const Names& names, Names* all) {
  for (const std::string& name : names) {
    if (std::find(all->begin(), all->end(), name) == all->end()) {
      all->Add()->assign(name);
    }
  }
}

void AddConditions(const v1::RunConditions& one, v1::RunConditions& all) {
  const int readings = all.readings() + one.readings();
  if (one.has_gpu_utilization_ratio()) {
    // Each attempt counts as its readings do.
    const double before = all.has_gpu_utilization_ratio() ? all.readings() : 0;
    const double weight = before + one.readings();
    if (weight > 0) {
      all.set_gpu_utilization_ratio(
          (all.gpu_utilization_ratio() * before +
           one.gpu_utilization_ratio() * one.readings()) /
          weight);
    }
  }
  all.set_readings(readings);
  Unite(one.power_sources(), all.mutable_power_sources());
  Unite(one.thermal_levels(), all.mutable_thermal_levels());
  Unite(one.memory_pressures(), all.mutable_memory_pressures());
  if (one.has_least_battery_ratio()) {
    all.set_least_battery_ratio(
        all.has_least_battery_ratio()
            ? std::min(all.least_battery_ratio(), one.least_battery_ratio())
            : one.least_battery_ratio());
  }
  if (one.has_low_power_mode()) {
    all.set_low_power_mode(all.low_power_mode() || one.low_power_mode());
  }
  if (one.has_first_swap_bytes() && !all.has_first_swap_bytes()) {
    all.set_first_swap_bytes(one.first_swap_bytes());
  }
  if (one.has_most_swap_bytes()) {
    all.set_most_swap_bytes(
        std::max(all.most_swap_bytes(), one.most_swap_bytes()));
  }
  if (one.has_user_active_seconds()) {
    all.set_user_active_seconds(all.user_active_seconds() +
                                one.user_active_seconds());
  }
  if (one.has_gpu_resets()) {
    all.set_gpu_resets(all.gpu_resets() + one.gpu_resets());
  }
}

void AddPauses(const v1::RunPauses& one, v1::RunPauses& all) {
  all.set_count(all.count() + one.count());
  all.set_seconds(all.seconds() + one.seconds());
  for (const auto& [reason, seconds] : one.seconds_by_reason()) {
    (*all.mutable_seconds_by_reason())[reason] += seconds;
  }
}

// The latest attempt's durations, except those that add up and the first wait
// in the queue.
void AddDurations(const v1::RunDurations& one, v1::RunDurations& all) {
  const v1::RunDurations before = all;
  all.MergeFrom(one);
  if (before.has_queue_seconds()) {
    all.set_queue_seconds(before.queue_seconds());
  }
  if (one.has_train_seconds()) {
    all.set_train_seconds(before.train_seconds() + one.train_seconds());
  }
  if (one.has_data_wait_seconds()) {
    all.set_data_wait_seconds(before.data_wait_seconds() +
                              one.data_wait_seconds());
  }
  if (one.has_evaluation_seconds()) {
    all.set_evaluation_seconds(before.evaluation_seconds() +
                               one.evaluation_seconds());
  }
  if (one.has_save_seconds()) {
    all.set_save_seconds(before.save_seconds() + one.save_seconds());
  }
}

}  // namespace

v1::JobRecord MakeRecord(const RecordSources& sources) {
  const jobs::Job& job = sources.job;
  v1::JobRecord record;
  AddIdentity(job, record);
  AddSpec(job, record);
  const absl::StatusOr<std::string> manifest =
      base::ReadSmallFile(sources.output_dir / "run.json", kManifestBytes);
  if (manifest.ok()) {
    ReadManifest(*manifest, record);
    record.set_run_json(ObjectText(*manifest));
  }
  AddProgress(job, record);
  AddRequest(sources.folder, record);
  AddStudy(sources, record);
  SumAttempts(sources.attempts, record);
  AddResults(job, record);
  return record;
}

std::map<std::string, std::string> FileSystemsOf(
    const jobs::Job& job, const std::filesystem::path& folder,
    const std::vector<host::Mount>& mounts) {
  std::map<std::string, std::string> types;
  const auto add = [&](const char* what, const std::string& path) {
    if (path.empty() || path.front() != '/') return;
    const std::optional<host::Mount> mount = host::MountOf(path, mounts);
    if (mount) types[what] = Clean(mount->type);
  };
  add("state", folder.string());
  const absl::StatusOr<spec::TrainSpec> spec =
      spec::ParseTrainSpec(job.spec_json, "");
  if (!spec.ok()) return types;
  add("model", spec->model);
  if (!spec->dataset.train.empty()) add("data", spec->dataset.train.front());
  return types;
}

std::string TextsOf(const v1::JobRecord& record) {
  std::string texts = absl::StrJoin({record.id(), record.name(), record.owner(),
                                     record.model(), record.message()},
                                    "\n");
  for (const auto& [key, value] : record.labels()) {
    absl::StrAppend(&texts, "\n", key, "\n", value);
  }
  return base::Shortened(texts, kTextsBytes);
}

v1::Job JobOf(const v1::JobRecord& record) {
  v1::Job job;
  job.set_past(true);
  job.set_id(record.id());
  job.set_name(record.name());
  job.set_kind(record.kind());
  job.set_state(record.state());
  job.set_owner(record.owner());
  job.set_model(record.model());
  job.set_message(record.message());
  job.set_exit_reason(record.exit_reason());
  job.set_attempt(record.attempt_count());
  *job.mutable_labels() = record.labels();
  *job.mutable_tags() = record.tags();
  *job.mutable_metrics() = record.metrics();
  *job.mutable_warnings() = record.warnings();
  if (record.has_create_time())
    *job.mutable_create_time() = record.create_time();
  if (record.has_start_time()) *job.mutable_start_time() = record.start_time();
  if (record.has_end_time()) *job.mutable_end_time() = record.end_time();
  if (record.has_train_loss()) job.set_train_loss(record.train_loss());
  if (record.has_eval_loss_before()) {
    job.set_eval_loss_before(record.eval_loss_before());
  }
  if (record.has_eval_loss()) job.set_eval_loss_after(record.eval_loss());
  if (record.has_best_evaluation()) {
    *job.mutable_best_evaluation() = record.best_evaluation();
  }
  job.set_device_seconds(record.durations().device_seconds());
  job.set_spec_json(record.spec_json());
  if (record.steps() > 0) {
    job.mutable_progress()->set_step(record.steps());
    job.mutable_progress()->set_total_steps(record.shape().total_steps());
    job.mutable_progress()->set_device(record.environment().device());
  }
  return job;
}

void ReadManifest(const std::string& text, v1::JobRecord& record) {
  const nlohmann::json run = base::ParseTree<nlohmann::json>(text);
  if (!run.is_object()) return;
  ReadEnvironment(run, *record.mutable_environment());
  ReadShape(run, *record.mutable_shape());
  ReadMemory(At(run, "memory"), *record.mutable_memory());
  ReadFallbacks(At(run, "cpu_fallback_ops"), *record.mutable_fallbacks());
  ReadData(run, *record.mutable_data());
}

void SumAttempts(const std::vector<std::string>& attempts,
                 v1::JobRecord& record) {
  for (size_t i = 0; i < attempts.size(); ++i) {
    v1::RunAttempt attempt;
    if (!attempt.ParseFromString(attempts[i])) continue;
    const bool runs =
        record.state() == v1::JOB_STATE_RUNNING && i + 1 == attempts.size();
    if (attempt.exit_reason().empty() && !runs) {
      attempt.set_exit_reason("Interrupted");
    }
    AddConditions(attempt.conditions(), *record.mutable_conditions());
    AddPauses(attempt.pauses(), *record.mutable_pauses());
    AddDurations(attempt.durations(), *record.mutable_durations());
    if (attempt.has_peak_footprint_bytes()) {
      v1::RunMemory& memory = *record.mutable_memory();
      memory.set_peak_footprint_bytes(std::max(memory.peak_footprint_bytes(),
                                               attempt.peak_footprint_bytes()));
    }
    v1::RunEnvironment& environment = *record.mutable_environment();
    if (environment.device().empty()) environment.set_device(attempt.device());
    if (environment.torch_version().empty()) {
      environment.set_torch_version(attempt.torch_version());
    }
    if (environment.worker_version().empty()) {
      environment.set_worker_version(attempt.daemon_version());
    }
    environment.set_daemon_version(attempt.daemon_version());
    environment.set_daemon_commit(attempt.daemon_commit());
    if (!attempt.file_systems().empty()) {
      *environment.mutable_file_systems() = attempt.file_systems();
    }
    if (i + kShownAttempts >= attempts.size()) {
      *record.add_attempts() = std::move(attempt);
    }
  }
}

// --- what is stored

absl::Time JobRecords::Tend() {
  absl::MutexLock lock(&storing_);
  if (absl::Status stored =
          StoreAttempts(/*now=*/false, absl::InfiniteDuration());
      !stored.ok()) {
    std::string line = absl::StrCat("records: ", stored.message());
    if (line != logged_) options_.log(line);
    logged_ = std::move(line);
  }
  return dependencies_.clock.Now() + options_.interval;
}

absl::Status JobRecords::StoreAttempts(bool now, absl::Duration patience) {
  std::vector<SeenAttempt> seen = dependencies_.watch.TakeChanged(now);
  if (seen.empty()) return absl::OkStatus();
  std::vector<jobs::AttemptRow> rows;
  for (SeenAttempt& attempt : seen) {
    if (attempt.job_id != mounted_id_ || attempt.start != mounted_start_) {
      const absl::StatusOr<jobs::Job> job =
          dependencies_.jobs.Get(attempt.job_id);
      mounted_.clear();
      if (job.ok()) {
        mounted_ = FileSystemsOf(*job, dependencies_.files.Folder(job->id),
                                 options_.mounts());
      }
      mounted_id_ = attempt.job_id;
      mounted_start_ = attempt.start;
    }
    v1::RunAttempt sum = attempt.sum;
    sum.mutable_file_systems()->insert(mounted_.begin(), mounted_.end());
    rows.push_back({attempt.job_id, attempt.start, sum.SerializeAsString()});
  }
  absl::Status stored = dependencies_.past.PutAttempts(rows, patience);
  if (!stored.ok()) dependencies_.watch.Return(std::move(seen));
  return stored;
}

absl::StatusOr<v1::JobRecord> JobRecords::Make(const jobs::Job& job) {
  RecordSources sources;
  sources.job = job;
  ASSIGN_OR_RETURN(sources.attempts, dependencies_.past.Attempts(job.id));
  sources.folder = dependencies_.files.Folder(job.id);
  sources.output_dir = dependencies_.files.OutputDir(job.id);
  return MakeRecord(sources);
}

absl::StatusOr<v1::JobRecord> JobRecords::Get(const std::string& id) {
  // What cannot be stored now, as on a hanging disk, is missing in the
  // response, which does not wait for it.
  if (storing_.TryLock()) {
    StoreAttempts(/*now=*/true, kPatience).IgnoreError();
    storing_.Unlock();
  }
  v1::JobRecord record;
  const absl::StatusOr<jobs::Job> job = dependencies_.jobs.Get(id);
  if (job.ok()) {
    ASSIGN_OR_RETURN(record, Make(*job));
  } else if (absl::IsNotFound(job.status())) {
    ASSIGN_OR_RETURN(const std::string body, dependencies_.past.BodyOf(id));
    if (!record.ParseFromString(body)) {
      return absl::DataLossError(
          absl::StrCat("the record of job ", id, " cannot be read"));
    }
    record.set_id(id);
  } else {
    return job.status();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> tags,
                   dependencies_.past.TagsOf(id));
  for (const std::string& tag : tags) record.add_tags(base::Printable(tag));
  ASSIGN_OR_RETURN(const std::vector<jobs::JobNote> notes,
                   dependencies_.past.NotesOf(id));
  for (const jobs::JobNote& note : notes) {
    v1::JobNote& out = *record.add_notes();
    out.mutable_time()->set_seconds(absl::ToUnixSeconds(note.time));
    out.set_author(base::Printable(note.author));
    out.set_text(base::Printable(note.text, base::Breaks::kKeep));
  }
  return record;
}

absl::Status JobRecords::Keep(const std::string& id) {
  // The worker of the last attempt has exited: its sum is among those stored
  // here.
  {
    absl::MutexLock lock(&storing_);
    RETURN_IF_ERROR(StoreAttempts(/*now=*/false, absl::InfiniteDuration()));
  }
  absl::StatusOr<jobs::Job> job = dependencies_.jobs.Get(id);
  if (absl::IsDataLoss(job.status())) {
    jobs::Job unreadable;
    unreadable.id = id;
    unreadable.owner = dependencies_.jobs.OwnerOf(id).value_or(std::string());
    unreadable.state = jobs::State::kFailed;
    unreadable.create_time = dependencies_.clock.Now();
    unreadable.message = std::string(job.status().message());
    job = std::move(unreadable);
  }
  if (!job.ok()) return job.status();
  ASSIGN_OR_RETURN(const v1::JobRecord record, Make(*job));
  return dependencies_.past.Put(*job, TextsOf(record),
                                record.SerializeAsString());
}

}  // namespace mpsd::records
