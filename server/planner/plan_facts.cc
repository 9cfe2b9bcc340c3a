// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_facts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/pause_gate.h"

namespace mpsd::planner {

namespace {

constexpr int kLooks = 50;
constexpr size_t kRuns = 10;

double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

bool HasSpeed(const jobs::Job& job, const std::string& device) {
  if (job.kind != jobs::JobKind::kTraining || !job.progress || !job.end_time) {
    return false;
  }
  const jobs::Progress& last = *job.progress;
  return last.device == device && std::isfinite(last.tokens_per_second) &&
         last.tokens_per_second > 0 && std::isfinite(last.seconds) &&
         last.seconds > 0;
}

}  // namespace

std::optional<Pace> PaceOfPastRuns(
    jobs::JobReader& reader, const std::string& model,
    const spec::TrainSpec& spec, const std::string& device,
    const std::function<bool(const std::string& owner)>& may_read) {
  jobs::ListFilter filter;
  filter.states = {jobs::State::kSucceeded};
  filter.model = model;
  filter.limit = kLooks;
  filter.summaries = true;
  const absl::StatusOr<std::vector<jobs::Job>> jobs = reader.List(filter);
  if (!jobs.ok() || device.empty()) return std::nullopt;
  const std::string shape = SpeedShape(spec);
  std::vector<double> rates, steps;
  Pace pace;
  for (const jobs::Job& job : *jobs) {
    if (steps.size() == kRuns) break;
    if (!HasSpeed(job, device) || (may_read && !may_read(job.owner))) continue;
    // A summary has no spec.
    const absl::StatusOr<jobs::Job> whole = reader.Get(job.id);
    if (!whole.ok()) continue;
    const absl::StatusOr<spec::TrainSpec> ran =
        spec::ParseTrainSpec(whole->spec_json, "job.json");
    if (!ran.ok() || SpeedShape(*ran) != shape) continue;
    rates.push_back(job.progress->tokens_per_second);
    steps.push_back(job.progress->seconds);
    pace.newest = std::max(pace.newest, *job.end_time);
  }
  if (steps.empty()) return std::nullopt;
  pace.runs = static_cast<int>(steps.size());
  pace.tokens_per_second = Median(std::move(rates));
  pace.step_seconds = Median(std::move(steps));
  return pace;
}

namespace {

using Json = nlohmann::json;

void Put(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}
void Put(Json& json, const char* name, int64_t number) {
  if (number > 0) json[name] = number;
}

Json PaceJson(const Pace& pace) {
  return {{"runs", pace.runs},
          {"step_seconds", pace.step_seconds},
          {"tokens_per_second", pace.tokens_per_second},
          {"newest", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", pace.newest,
                                      absl::UTCTimeZone())}};
}

}  // namespace

std::string Encode(const Facts& facts) {
  Json json = Json::object();
  if (facts.check) json["check"] = true;
  if (!facts.read_roots.empty()) json["read_roots"] = facts.read_roots;
  if (!facts.closed_roots.empty()) json["closed_roots"] = facts.closed_roots;
  Put(json, "device", facts.device);
  Put(json, "chip", facts.chip);
  Put(json, "gpu_cores", facts.gpu_cores);
  Put(json, "cpu_cores", facts.cpu_cores);
  Put(json, "memory_bytes", facts.memory_bytes);
  Put(json, "memory_limit_bytes", facts.memory_limit_bytes);
  if (facts.disk_free_bytes) json["disk_free_bytes"] = *facts.disk_free_bytes;
  if (!facts.thresholds.empty()) json["thresholds"] = facts.thresholds;
  if (facts.pace) json["pace"] = PaceJson(*facts.pace);
  Json probe = base::ParseTree<Json>(facts.probe_json);
  if (probe.is_object()) json["probe"] = std::move(probe);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

constexpr size_t kNamedJobs = 3;

// "job A", "jobs A, B and 4 others".
std::string Jobs(const std::vector<std::string>& ids) {
  if (ids.size() == 1) return absl::StrCat("job ", ids.front());
  const size_t named = std::min(ids.size(), kNamedJobs);
  std::string text = absl::StrCat(
      "jobs ", absl::StrJoin(ids.begin(), ids.begin() + named, ", "));
  const size_t more = ids.size() - named;
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

// The remaining time of the running job, by its last step.
std::optional<absl::Duration> LeftOf(jobs::JobReader& reader,
                                     const std::string& id) {
  const absl::StatusOr<jobs::Job> job = reader.Get(id);
  if (!job.ok() || !job->progress) return std::nullopt;
  const double seconds = job->progress->eta_seconds;
  if (!std::isfinite(seconds) || seconds < 0) return std::nullopt;
  return absl::Seconds(seconds);
}

// The jobs ahead, by what is known of them.
struct Ahead {
  int64_t jobs = 0;    // that run before
  int64_t beyond = 0;  // of these, not looked at
  absl::Duration known;
  std::vector<std::string> stepless, hidden, asleep;
};

Ahead Count(jobs::JobReader& reader, const jobs::QueueListing& listing,
            const std::function<bool(const std::string& owner)>& may_read) {
  Ahead ahead;
  ahead.beyond = ahead.jobs = listing.more;
  for (const jobs::QueuePlace& place : listing.places) {
    if (place.waits_for_somebody) {
      ahead.asleep.push_back(place.id);
      continue;
    }
    ++ahead.jobs;
    if (may_read && !may_read(place.owner)) {
      ahead.hidden.push_back(place.id);
      continue;
    }
    const std::optional<absl::Duration> left =
        place.state == jobs::State::kRunning ? LeftOf(reader, place.id)
                                             : place.time_left;
    if (left) {
      ahead.known += *left;
    } else {
      ahead.stepless.push_back(place.id);
    }
  }
  return ahead;
}

// Why no queued job starts, or the running one does not train.
std::string WhyHeld(const jobs::QueueInfo& info) {
  if (!info.hold.empty() || info.pause_reasons.empty()) return info.hold;
  return absl::StrCat("no job trains: ", jobs::Describe(info.pause_reasons));
}

// Each reason why the wait is unknown.
std::vector<std::string> Unknown(const Ahead& ahead, bool held) {
  std::vector<std::string> unknown;
  if (held) unknown.push_back("how long the queue is held");
  if (!ahead.stepless.empty()) {
    unknown.push_back(absl::StrCat(
        "how long ", Jobs(ahead.stepless),
        ahead.stepless.size() == 1 ? " takes: it has" : " take: they have",
        " not finished a step yet"));
  }
  if (!ahead.hidden.empty()) {
    unknown.push_back(
        absl::StrCat("how long ", Jobs(ahead.hidden),
                     ahead.hidden.size() == 1 ? " takes" : " take",
                     ": only the owner and admins may know"));
  }
  if (ahead.beyond > 0) {
    unknown.push_back(absl::StrCat("how long ", ahead.beyond,
                                   " jobs take that come after the first ",
                                   limits::kQueueEntries));
  }
  return unknown;
}

}  // namespace

PlanQueue LookAhead(
    jobs::JobReader& reader, const std::string& owner, int32_t priority,
    const std::function<bool(const std::string& owner)>& may_read) {
  const Ahead ahead =
      Count(reader, reader.QueueBefore(owner, priority, limits::kQueueEntries),
            may_read);
  PlanQueue queue;
  queue.jobs_ahead = ahead.jobs;
  queue.why = WhyHeld(reader.Info());
  queue.unknown = Unknown(ahead, !queue.why.empty());
  if (queue.unknown.empty()) {
    queue.wait = ahead.known;
  } else if (ahead.known > absl::ZeroDuration()) {
    queue.unknown.push_back(absl::StrCat("when the job would start: in ",
                                         jobs::RoundTime(ahead.known),
                                         " at the earliest"));
  }
  // They do not affect the wait until they are released.
  if (!ahead.asleep.empty()) {
    queue.unknown.push_back(absl::StrCat("when ", Jobs(ahead.asleep),
                                         ahead.asleep.size() == 1
                                             ? " is released, which then goes"
                                             : " are released, which then go",
                                         " first"));
  }
  return queue;
}

namespace {

// JSON pointers into spec::ToJson.
constexpr const char* kOfSpeed[] = {"/task",
                                    "/fine_tune_type",
                                    "/quantization_config",
                                    "/lora/r",
                                    "/lora/target_modules",
                                    "/lora/layers_to_transform",
                                    "/lora/rank_pattern",
                                    "/lora/modules_to_save",
                                    "/training/per_device_train_batch_size",
                                    "/training/gradient_accumulation_steps",
                                    "/training/max_length",
                                    "/training/packing",
                                    "/training/padding_free",
                                    "/training/train_sampling_strategy",
                                    "/training/auto_find_batch_size",
                                    "/training/gradient_checkpointing",
                                    "/training/recompute_granularity",
                                    "/training/bf16",
                                    "/gradients"};

constexpr const char* kOfNoStep[] = {"/name",
                                     "/dataset/eval",
                                     "/dataset/predict",
                                     "/dataset/max_eval_samples",
                                     "/dataset/max_predict_samples",
                                     "/lora/lora_alpha",
                                     "/lora/use_rslora",
                                     "/lora/alpha_pattern",
                                     "/training/num_train_epochs",
                                     "/training/max_steps",
                                     "/training/per_device_eval_batch_size",
                                     "/training/learning_rate",
                                     "/training/lr_scheduler_type",
                                     "/training/warmup_steps",
                                     "/training/warmup_ratio",
                                     "/training/weight_decay",
                                     "/training/adam_beta1",
                                     "/training/adam_beta2",
                                     "/training/adam_epsilon",
                                     "/training/max_grad_norm",
                                     "/training/seed",
                                     "/training/eval_steps",
                                     "/training/save_steps",
                                     "/training/save_total_limit",
                                     "/training/logging_steps",
                                     "/training/load_best_model_at_end",
                                     "/training/metric_for_best_model",
                                     "/training/greater_is_better",
                                     "/training/early_stopping_patience",
                                     "/training/early_stopping_threshold",
                                     "/training/sample_prompts",
                                     "/training/sample_steps",
                                     "/training/sample_max_new_tokens"};

Json Tree(const spec::TrainSpec& spec) {
  return base::ParseTree<Json>(spec::ToJson(spec));
}

// "/training/max_length" as job.json's errors spell it.
std::string FieldOf(const std::string& pointer) {
  return absl::StrReplaceAll(
      pointer.substr(std::min<size_t>(1, pointer.size())), {{"/", "."}});
}

Json StepsOf(const spec::TrainSpec& spec) {
  Json tree = Tree(spec);
  for (const char* pointer : kOfNoStep) {
    const Json::json_pointer at(pointer);
    if (tree.contains(at)) tree[at] = nullptr;
  }
  return tree;
}

bool LiesIn(std::string_view path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](std::string folder) {
    if (path == folder) return true;
    if (!folder.ends_with('/')) folder += '/';
    return path.starts_with(folder);
  });
}

// The uploaded files that train the model, or are read with it.
std::map<std::string, std::string> FilesOfSteps(
    const jobs::SubmitRequest& request, const spec::TrainSpec& spec) {
  std::vector<std::string> others = spec.dataset.eval;
  others.insert(others.end(), spec.dataset.predict.begin(),
                spec.dataset.predict.end());
  std::map<std::string, std::string> files;
  for (const jobs::InputFile& input : request.inputs) {
    if (LiesIn(input.path, others) && !LiesIn(input.path, spec.dataset.train)) {
      continue;
    }
    files[input.path] = input.sha256;
  }
  return files;
}

absl::Status Differs(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "probe_id: the probe measured another job: ", what,
      "; probe this job.json (`mpsctl plan --probe`), or leave the probe out"));
}

std::string Shown(const Json& value) {
  return base::Quotable(
      value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string SpeedShape(const spec::TrainSpec& spec) {
  const Json tree = Tree(spec);
  Json shape = Json::object();
  for (const char* pointer : kOfSpeed) {
    const Json::json_pointer at(pointer);
    if (tree.contains(at)) shape[pointer] = tree[at];
  }
  return shape.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status CheckSameSteps(const jobs::SubmitRequest& probed,
                            const jobs::SubmitRequest& planned) {
  const absl::StatusOr<spec::TrainSpec> before =
      spec::ParseTrainSpec(probed.spec_json, "job.json");
  // The caller has checked that it is one; the probe's may be of another
  // release.
  ASSIGN_OR_RETURN(const spec::TrainSpec now,
                   spec::ParseTrainSpec(planned.spec_json, "job.json"));
  if (!before.ok()) return Differs("this mpsd cannot read its job.json");
  const Json a = StepsOf(*before).flatten(), b = StepsOf(now).flatten();
  const auto value = [](const Json& flat, const std::string& pointer) {
    const auto found = flat.find(pointer);
    return found == flat.end() ? Json(nullptr) : *found;
  };
  for (const Json* side : {&a, &b}) {
    for (const auto& [pointer, ignored] : side->items()) {
      const Json was = value(a, pointer), is = value(b, pointer);
      if (was == is) continue;
      return Differs(absl::StrCat(base::Quotable(FieldOf(pointer)), " was ",
                                  Shown(was), " and is ", Shown(is)));
    }
  }
  const auto old_files = FilesOfSteps(probed, *before);
  const auto new_files = FilesOfSteps(planned, now);
  for (const auto& [path, sha256] : new_files) {
    const auto found = old_files.find(path);
    if (found != old_files.end() && found->second == sha256) continue;
    return Differs(
        absl::StrCat("the file '", base::Quotable(path), "' is another"));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::planner
