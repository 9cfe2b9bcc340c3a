// SPDX-License-Identifier: Apache-2.0
#include "core/train/run_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <string_view>
#include <system_error>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/host/footprint.h"
#include "core/host/machine.h"
#include "core/report/report_json.h"
#include "core/report/tensorboard.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr char kFile[] = "run.json";
// Members that a later attempt reads.
constexpr char kFallbacks[] = "cpu_fallback_ops";
constexpr char kAttention[] = "attention";
constexpr char kResumed[] = "resumed_at_steps";
constexpr char kStarted[] = "started_at";
constexpr size_t kNames = 100;  // longest list of names

json StatsJson(const data::DatasetStats& stats, const std::string& sha256) {
  return {{"sha256", sha256},
          {"rows", stats.rows},
          {"tokens", stats.tokens},
          {"label_tokens", stats.label_tokens},
          {"truncated_rows", stats.truncated_rows},
          {"dropped_rows", stats.dropped_rows},
          {"prompt_mismatch_rows", stats.prompt_mismatch_rows},
          {"prompt_rows", stats.prompt_rows}};
}

// The number of names, and the first kNames of them.
json Bounded(const std::vector<std::string>& names) {
  const auto shown =
      static_cast<std::ptrdiff_t>(std::min(names.size(), kNames));
  return {{"count", names.size()},
          {"names",
           std::vector<std::string>(names.begin(), names.begin() + shown)}};
}

template <typename T>
json Optional(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json JoinNames(const std::set<std::string>& names) {
  return names.empty() ? json() : json(absl::StrJoin(names, " and "));
}

json AttentionJson(const AttentionNames& names) {
  return {{"training",
           {{"forward", JoinNames(names.training.forward)},
            {"backward", JoinNames(names.training.backward)}}},
          {"evaluation", JoinNames(names.evaluation)}};
}

std::set<std::string> Names(const json& joined) {
  if (!joined.is_string()) return {};
  return absl::StrSplit(joined.get<std::string>(), " and ");
}

json ResultJson(const ckpt::TrainerState& state, int64_t result_step) {
  const bool evaluated = state.eval_step > 0;  // since training began
  json result;
  result["steps"] = state.step;
  result["train_loss"] =
      state.step > 0 ? json(state.loss_sum / state.step) : json();
  result["eval_loss_before"] = Optional(state.eval_loss_before);
  result["eval_loss_after"] = evaluated ? Optional(state.eval_loss) : json();
  result["tokens"] = state.tokens_seen;
  result["seconds"] = state.seconds;
  if (result_step > 0) result["result_step"] = result_step;
  json& metrics = result["eval_metrics"] = json::object();
  if (!evaluated) return result;
  for (const auto& [name, value] : state.eval_metrics) metrics[name] = value;
  if (state.best_metric) {
    result["best"] = {{"metric", *state.best_metric},
                      {"step", state.best_step}};
  }
  return result;
}

}  // namespace

absl::Status WriteManifest(const fs::path& folder, const Manifest& m) {
  json j;
  j["state"] = m.state;
  j[kStarted] =
      absl::FormatTime(absl::RFC3339_full, m.started_at, absl::UTCTimeZone());
  j["mpsd_version"] = m.mpsd_version;
  j["torch_version"] = m.torch_version;
  j["operating_system"] = host::OperatingSystem();
  j["processor"] = host::ProcessorName();
  j["device"] = m.device;
  j["device_description"] = m.device_description;
  j["environment"] = m.environment;
  j[kAttention] = AttentionJson(m.attention);
  j["gradients"] = m.gradients;
  j["dtype"] = m.spec.training.bf16 ? "bfloat16" : "float32";
  j["seed"] = m.spec.training.seed;
  j["spec"] = json::parse(spec::ToJson(m.spec));
  const spec::BaseModel base = spec::BaseModelOf(m.spec, m.model_folder);
  j["model"] = {{"name", base.name},
                {"revision", base.revision},
                {"folder", m.model_folder},
                {"sha256", m.model_sha256}};
  j["train"] = StatsJson(m.train_stats, m.train_sha256);
  if (!m.eval_sha256.empty()) {
    j["eval"] = StatsJson(m.eval_stats, m.eval_sha256);
  }
  if (m.micro_batch) {
    const spec::TrainingSpec& t = m.spec.training;
    j["micro_batch"] =
        json::parse(ToJson(*m.micro_batch, t.per_device_train_batch_size *
                                               t.gradient_accumulation_steps));
  }
  if (!m.label_names.empty()) {
    j["labels"] = {{"problem_type", m.problem_type}, {"names", m.label_names}};
  }
  j["fresh_modules"] = m.fresh_modules;
  j["unused_tensors"] = Bounded(m.load_report.unused);
  j["missing_tensors"] = Bounded(m.load_report.missing);
  j["trainable_parameters"] = m.trainable_parameters;
  if (m.max_length > 0) j["max_length"] = m.max_length;
  j["total_steps"] = m.progress.total_steps;
  j[kResumed] = m.resumed_at_steps;
  j["result"] = ResultJson(m.progress, m.result_step);
  j["memory"] = {
      {"peak_allocated_bytes", Optional(m.memory.peak_allocated)},
      {"peak_driver_allocated_bytes", Optional(m.memory.peak_driver)},
      {"driver_overhead_growth_bytes", Optional(m.memory.overhead_growth)},
      {"peak_footprint_bytes", Optional(host::PeakFootprintBytes())}};
  j[kFallbacks] = m.cpu_fallback_ops;
  j["warnings"] = m.warnings;
  // A warning may quote bytes of a user's file that are not UTF-8.
  const std::string text =
      j.dump(2, ' ', false, json::error_handler_t::replace);
  return base::WriteFileAtomic(folder / kFile, text + "\n");
}

void AttentionNames::Add(const AttentionNames& other) {
  training.forward.insert(other.training.forward.begin(),
                          other.training.forward.end());
  training.backward.insert(other.training.backward.begin(),
                           other.training.backward.end());
  evaluation.insert(other.evaluation.begin(), other.evaluation.end());
}

json ReadRun(const fs::path& folder) {
  auto text = base::ReadFile(folder / kFile);
  json run = text.ok() ? json::parse(*text, nullptr, false) : json();
  return run.is_object() ? run : json::object();
}

std::optional<absl::Time> StartOfRun(const fs::path& folder) {
  const json started = ReadRun(folder).value(kStarted, json());
  absl::Time time;
  if (ckpt::ListCheckpoints(folder).empty() || !started.is_string() ||
      !absl::ParseTime(absl::RFC3339_full, started.get<std::string>(), &time,
                       nullptr)) {
    return std::nullopt;
  }
  return time;
}

std::string LabelsOfRun(const fs::path& folder) {
  const json labels = ReadRun(folder).value("labels", json());
  return labels.is_object() ? labels.dump() : "";
}

EarlierAttempts ReadEarlierAttempts(const fs::path& folder, int64_t step) {
  EarlierAttempts earlier;
  const json run = ReadRun(folder);
  for (const json& at : run.value(kResumed, json::array())) {
    if (at.is_number_integer()) {
      earlier.resumed_at_steps.push_back(at.get<int64_t>());
    }
  }
  if (step == 0) return earlier;
  earlier.resumed_at_steps.push_back(step);
  const json counts = run.value(kFallbacks, json::object());
  for (const auto& [op, count] : counts.items()) {
    if (count.is_number_integer()) {
      earlier.cpu_fallback_ops[op] = count.get<int64_t>();
    }
  }
  const json names = run.value(kAttention, json::object());
  if (!names.is_object()) return earlier;
  const json training = names.value("training", json());
  if (!training.is_object()) return earlier;
  earlier.attention = {{Names(training.value("forward", json())),
                        Names(training.value("backward", json()))},
                       Names(names.value("evaluation", json()))};
  return earlier;
}

namespace {

using report::Json;

constexpr char kMetrics[] = "metrics.jsonl";
constexpr char kEvals[] = "eval.jsonl";

// The lines of steps up to `step`. Drops a last line truncated by a crash.
// `last`: the step of the last line kept.
std::string KeepUntil(std::string_view text, int64_t step, int64_t& last) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const Json object = Json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step")) continue;
    if (object["step"].get<int64_t>() > step) break;
    last = object["step"].get<int64_t>();
    kept.append(line).push_back('\n');
  }
  return kept;
}

absl::Status AppendLine(std::FILE* file, const std::string& line,
                        const fs::path& folder) {
  const std::string text = line + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size() ||
      std::fflush(file) != 0) {
    return base::ErrnoStatus(errno, folder.string());
  }
  return absl::OkStatus();
}

// With the names of Transformers' own log: metrics are members of the line.
class LogWriter : public report::JsonWriter {
 public:
  LogWriter(Json& line, const char* prefix)
      : JsonWriter(line), prefix_(prefix) {}
  using JsonWriter::operator();

  void operator()(const char*, const report::Metrics& metrics) {
    for (const auto& [name, value] : metrics) {
      (*this)((prefix_ + name).c_str(), value);
    }
  }

 private:
  const std::string prefix_;
};

}  // namespace

std::string ToJsonLine(const report::Progress& progress) {
  Json line = Json::object();
  LogWriter writer(line, "");
  Fields(writer, progress, &progress);
  return report::Dump(line);
}

std::string ToJsonLine(const report::Evaluated& evaluated) {
  Json line = Json::object();
  LogWriter writer(line, "eval_");
  Fields(writer, evaluated, &evaluated);
  return report::Dump(line);
}

std::string ToJsonLine(const report::Sampled& sampled) {
  Json line = Json::object();
  report::JsonWriter writer(line);
  Fields(writer, sampled, &sampled);
  return report::Dump(line);
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const fs::path& path,
                                                           int64_t step,
                                                           int64_t eval_step) {
  std::error_code error;
  fs::create_directories(path / "checkpoints", error);
  if (error) return base::ErrnoStatus(error.value(), path.string());
  std::unique_ptr<RunFolder> folder(new RunFolder);
  folder->path_ = path;
  RETURN_IF_ERROR(folder->OpenLog(kMetrics, step, folder->metrics_).status());
  RETURN_IF_ERROR(folder->OpenLog(kEvals, eval_step, folder->evals_).status());
  if (fs::exists(path / kSamplesFile, error)) {
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    ASSIGN_OR_RETURN(
        folder->sampled_step_,
        folder->OpenLog(kSamplesFile, step == 0 ? -1 : kAll, folder->samples_));
  }
  // A run that starts over evaluates step 0 again.
  auto curves = tensorboard::EventFile::Create(
      path / "runs", step == 0 ? 0 : step + 1, base::Clock::Real());
  folder->curves_status_ = curves.status();
  if (curves.ok()) folder->curves_ = *std::move(curves);
  return folder;
}

absl::StatusOr<int64_t> RunFolder::OpenLog(const std::string& name,
                                           int64_t step, File& file) {
  const fs::path path = path_ / name;
  std::string text;
  int64_t last = -1;
  if (fs::exists(path)) {
    ASSIGN_OR_RETURN(auto old, base::ReadFile(path));
    text = KeepUntil(old, step, last);
  }
  RETURN_IF_ERROR(base::WriteFileAtomic(path, text));
  file.reset(std::fopen(path.c_str(), "ae"));
  if (file == nullptr) return base::ErrnoStatus(errno, path.string());
  return last;
}

absl::Status RunFolder::Append(const report::Progress& progress) {
  if (curves_) curves_->Add(progress.step, tensorboard::ScalarsOf(progress));
  return AppendLine(metrics_.get(), ToJsonLine(progress), path_);
}

absl::Status RunFolder::Append(const report::Evaluated& evaluated) {
  if (curves_) curves_->Add(evaluated.step, tensorboard::ScalarsOf(evaluated));
  return AppendLine(evals_.get(), ToJsonLine(evaluated), path_);
}

absl::Status RunFolder::Append(const report::Sampled& sampled) {
  if (samples_ == nullptr) {
    RETURN_IF_ERROR(OpenLog(kSamplesFile, -1, samples_).status());
  }
  sampled_step_ = sampled.step;
  return AppendLine(samples_.get(), ToJsonLine(sampled), path_);
}

}  // namespace mpsd::train
