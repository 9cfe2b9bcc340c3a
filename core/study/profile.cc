// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/data/loader.h"
#include "core/device/block_mark.h"
#include "core/device/device.h"
#include "core/report/runbook.h"

namespace mpsd::study {
namespace {

using profile::Tally;
using runbook::Finding;
using runbook::Verdict;

constexpr size_t kFewestForGrowth = 10;
constexpr size_t kNamesShown = 5;

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.3g ms", seconds * 1000);
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// The block with most of the waits.
const std::string& MainBlock(const profile::WaitCost& cost) {
  return std::max_element(
             cost.blocks.begin(), cost.blocks.end(),
             [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

Finding DataFinding(const ProfileFacts& facts,
                    const runbook::Thresholds& thresholds) {
  const double share = Ratio(facts.DataWaitSeconds(), facts.StepSeconds());
  const double threshold = thresholds.Get("profile.data_share");
  const double alone = Mean(facts.data_seconds);
  const double work = facts.WorkSeconds(StepKind::kPlain);
  // Waits for a fast loader are caused by a busy machine: the loader's own
  // thread makes the batches.
  const bool slow = facts.data_seconds.empty() || alone >= threshold * work;
  Finding finding = {
      .name = "profile.data",
      .found = absl::StrFormat("a step waits for data for %.3g %% of its time",
                               share * 100),
      .value = share,
      .threshold = threshold,
      .unit = "ratio"};
  if (!facts.data_seconds.empty()) {
    absl::StrAppend(&finding.found, "; its batches alone take ",
                    Milliseconds(alone), ", its work ", Milliseconds(work));
  }
  if (share >= threshold && !slow) {
    absl::StrAppend(&finding.found,
                    ": not the loader, but other work on this machine's CPU "
                    "delays it");
  }
  return Judge(
      std::move(finding), share >= threshold && slow, Verdict::kWarn,
      "data starves the device: fix the data plane before the model. Make "
      "images smaller before the upload, keep model cache and data on a "
      "local disk, stop other work on the CPU; then profile again");
}

Finding BlockingFinding(const ProfileFacts& facts,
                        const runbook::Thresholds& thresholds) {
  const Tally& tally = facts.tally;
  const double steps = static_cast<double>(std::max<int64_t>(tally.steps, 1));
  const double threshold = thresholds.Get("profile.blocking_copies");
  int64_t calls = 0, ns = 0;
  std::vector<std::string> named;
  for (const auto& [name, cost] : tally.waits) {
    calls += cost.calls;
    ns += cost.ns;
    if (named.size() < kNamesShown) {
      named.push_back(absl::StrFormat("%s, %.3g a step, in '%s'", name,
                                      static_cast<double>(cost.calls) / steps,
                                      MainBlock(cost)));
    }
  }
  const double each = static_cast<double>(calls) / steps;
  return Judge(
      {.name = "profile.blocking",
       .found = named.empty()
                    ? "the host waits for the device once a step, at its end"
                    : absl::StrCat(
                          "the host waits for the device within a step: ",
                          absl::StrJoin(named, "; "), "; ",
                          Milliseconds(static_cast<double>(ns) / 1e9 / steps),
                          " a step"),
       .value = each,
       .threshold = threshold,
       .unit = "calls a step"},
      calls > 0 && each > threshold, Verdict::kWarn,
      "a speedup near 1x comes from sync points: each such call empties the "
      "device's queue. Report it with the trace: mpsd's own step reads back "
      "once");
}

Finding FallbackFinding(const ProfileFacts& facts,
                        const runbook::Thresholds& thresholds) {
  const double threshold = thresholds.Get("profile.fallback_operators");
  const report::Counts& counts = facts.fallbacks();
  const auto kinds = static_cast<double>(counts.size());
  std::vector<std::string> named;
  for (const auto& [name, count] : counts) {
    if (named.size() < kNamesShown) {
      named.push_back(absl::StrCat(name, " (", count, ")"));
    }
  }
  return Judge(
      {.name = "profile.fallback",
       .found = counts.empty()
                    ? "no operator fell back to the CPU"
                    : absl::StrCat(
                          "on the CPU, for lack of a kernel on the device: ",
                          absl::StrJoin(named, ", "),
                          counts.size() > named.size() ? ", …" : ""),
       .value = kinds,
       .threshold = threshold,
       .unit = "operators"},
      kinds > threshold, Verdict::kWarn,
      "a kernel gap: each call copies to the CPU and back. Note the names "
      "(`mpsctl set ID --note`); use a newer torch, another model or "
      "attention, or "
      "train on another device");
}

}  // namespace

double Mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

double ProfileFacts::WorkSeconds(StepKind kind) const {
  std::vector<double> seconds;
  for (const ProfiledStep& step : steps) {
    if (step.kind == kind) seconds.push_back(step.work());
  }
  return Median(std::move(seconds));
}

double ProfileFacts::DataWaitSeconds() const {
  std::vector<double> seconds;
  for (const ProfiledStep& step : steps) {
    if (step.kind == StepKind::kProfiled) seconds.push_back(step.data_wait());
  }
  return Mean(seconds);
}

double ProfileFacts::StepSeconds() const {
  return WorkSeconds(StepKind::kPlain) + DataWaitSeconds();
}

double ProfileFacts::Overhead() const {
  const double plain = WorkSeconds(StepKind::kPlain);
  return plain > 0 ? WorkSeconds(StepKind::kProfiled) / plain - 1 : 0;
}

const report::Counts& ProfileFacts::fallbacks() const {
  static const report::Counts none;
  return steps.empty() ? none : steps.back().progress.cpu_fallback_ops;
}

std::optional<double> ProfileFacts::MemoryGrowth() const {
  std::vector<double> bytes;
  for (const ProfiledStep& step : steps) {
    if (step.kind == StepKind::kWarmUp) continue;
    if (const auto& held = step.progress.memory.current_allocated_bytes) {
      bytes.push_back(static_cast<double>(*held));
    }
  }
  if (bytes.size() < kFewestForGrowth) return std::nullopt;
  const auto part = static_cast<std::ptrdiff_t>(bytes.size() / 5);
  const double before = Mean({bytes.begin(), bytes.begin() + part});
  const double after = Mean({bytes.end() - part, bytes.end()});
  if (before <= 0) return std::nullopt;
  return after / before - 1;
}

std::optional<double> ProfileFacts::Utilization() const {
  std::vector<double> ratios;
  for (const ProfiledStep& step : steps) {
    if (step.kind == StepKind::kWarmUp) continue;
    if (const auto& ratio = step.progress.device_utilization_ratio) {
      ratios.push_back(*ratio);
    }
  }
  if (ratios.empty()) return std::nullopt;
  return Mean(ratios);
}

std::vector<Finding> FindingsOf(const ProfileFacts& facts,
                                const runbook::Thresholds& thresholds) {
  return {DataFinding(facts, thresholds), BlockingFinding(facts, thresholds),
          FallbackFinding(facts, thresholds)};
}

// --- the result's tables -----------------------------------------------------
namespace {

using nlohmann::json;

constexpr size_t kOperators = 50;
constexpr size_t kBlocks = 100;
constexpr size_t kLayers = 512;
constexpr size_t kWaits = 20;
constexpr size_t kFallbacks = 100;

// Converts a sum over all steps to seconds or calls per step.
class PerStep {
 public:
  explicit PerStep(const Tally& tally)
      : steps_(static_cast<double>(std::max<int64_t>(tally.steps, 1))) {}
  double Seconds(int64_t ns) const {
    return static_cast<double>(ns) / 1e9 / steps_;
  }
  double Calls(int64_t calls) const {
    return static_cast<double>(calls) / steps_;
  }

 private:
  const double steps_;
};

json Steps(const ProfileFacts& facts) {
  std::vector<double> warm_up, profiled, first_epoch, later;
  int plain = 0;
  for (size_t i = 0; i < facts.steps.size(); ++i) {
    const ProfiledStep& step = facts.steps[i];
    const double seconds = step.progress.seconds;
    if (step.kind == StepKind::kWarmUp) {
      if (i > 0) warm_up.push_back(seconds);
      continue;
    }
    // The steps under the profiler are longer: only the others separate epochs.
    if (step.kind == StepKind::kProfiled) {
      profiled.push_back(seconds);
      continue;
    }
    ++plain;
    (step.progress.epoch <= 1 ? first_epoch : later).push_back(seconds);
  }
  const double steady = facts.StepSeconds();
  json steps = {{"warm_up", facts.steps.size() - profiled.size() -
                                static_cast<size_t>(plain)},
                {"plain", plain},
                {"profiled", profiled.size()},
                {"first_seconds",
                 facts.steps.empty() ? 0 : facts.steps[0].progress.seconds},
                {"steady_seconds", steady},
                {"profiled_seconds", Median(profiled)},
                {"overhead_ratio", facts.Overhead()},
                {"data_wait_share", Ratio(facts.DataWaitSeconds(), steady)}};
  if (!warm_up.empty()) steps["warm_up_seconds"] = Median(warm_up);
  if (!first_epoch.empty()) steps["first_epoch_seconds"] = Median(first_epoch);
  if (!later.empty()) steps["later_epochs_seconds"] = Median(later);
  if (const auto ratio = facts.Utilization()) {
    steps["device_utilization_ratio"] = *ratio;
  }
  return steps;
}

json Captures(const ProfileFacts& facts) {
  json captures = json::array();
  const auto add = [&](const char* name, size_t steps, double seconds) {
    if (steps == 0) return;
    captures.push_back(
        {{"name", name}, {"steps", steps}, {"seconds", seconds}});
  };
  add("data", facts.data_seconds.size(), Median(facts.data_seconds));
  add("forward", facts.forward_seconds.size(), Median(facts.forward_seconds));
  const auto plain = static_cast<size_t>(std::count_if(
      facts.steps.begin(), facts.steps.end(),
      [](const ProfiledStep& s) { return s.kind == StepKind::kPlain; }));
  add("step", plain, facts.StepSeconds());
  return captures;
}

json Operators(const Tally& tally) {
  const PerStep per_step(tally);
  const auto time = [&](const profile::OperatorCost& cost) {
    return tally.device_reports_times ? cost.device_ns : cost.self_ns;
  };
  std::vector<std::pair<std::string, profile::OperatorCost>> rows(
      tally.operators.begin(), tally.operators.end());
  double all = 0;
  for (const auto& [name, cost] : rows) all += static_cast<double>(time(cost));
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return time(a.second) > time(b.second);
  });
  json operators = json::array();
  for (const auto& [name, cost] : rows) {
    if (operators.size() == kOperators) break;
    json row = {{"name", name},
                {"calls", per_step.Calls(cost.calls)},
                {"self_seconds", per_step.Seconds(cost.self_ns)},
                {"share", Ratio(static_cast<double>(time(cost)), all)}};
    if (tally.device_reports_times) {
      row["device_seconds"] = per_step.Seconds(cost.device_ns);
    }
    operators.push_back(std::move(row));
  }
  return operators;
}

// "layer" is a layer's work outside its blocks, "step" the same for the step.
json Blocks(const Tally& tally) {
  const PerStep per_step(tally);
  std::vector<const std::pair<const std::pair<std::string, profile::Phase>,
                              profile::BlockCost>*>
      rows;
  for (const auto& row : tally.blocks) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return a->second.ns > b->second.ns;
  });
  json blocks = json::array();
  for (const auto* row : rows) {
    if (blocks.size() == kBlocks) break;
    const auto& [name, cost] = *row;
    json block = {{"name", name.first},
                  {"phase", profile::NameOf(name.second)},
                  {"calls", per_step.Calls(cost.calls)},
                  {"seconds", per_step.Seconds(cost.ns)},
                  {"share", Ratio(static_cast<double>(cost.ns),
                                  static_cast<double>(tally.step_ns))},
                  {"operator_seconds", per_step.Seconds(cost.operator_ns)}};
    if (tally.device_reports_times) {
      block["device_seconds"] = per_step.Seconds(cost.device_ns);
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

json Layers(const Tally& tally) {
  const PerStep per_step(tally);
  json layers = json::array();
  for (const auto& [index, cost] : tally.layers) {
    if (layers.size() == kLayers) break;
    const int64_t* ns = tally.device_reports_times ? cost.device_ns : cost.ns;
    // Recomputation is part of the backward.
    layers.push_back({{"index", index},
                      {"forward_seconds", per_step.Seconds(ns[0])},
                      {"backward_seconds", per_step.Seconds(ns[1] + ns[2])}});
  }
  return layers;
}

json Gaps(const Tally& tally) {
  const PerStep per_step(tally);
  const profile::GapCost& gaps = tally.gaps;
  json json = {{"count", per_step.Calls(gaps.count)},
               {"seconds", per_step.Seconds(gaps.ns)},
               {"share", Ratio(static_cast<double>(gaps.ns),
                               static_cast<double>(tally.step_ns))},
               {"longest_seconds", static_cast<double>(gaps.longest_ns) / 1e9},
               {"longest_before", gaps.longest_before},
               {"longest_block", gaps.longest_block}};
  if (tally.device_reports_times) {
    json["device_idle_ratio"] =
        1 - Ratio(static_cast<double>(tally.device_busy_ns),
                  static_cast<double>(tally.device_window_ns));
  }
  return json;
}

json Waits(const Tally& tally) {
  const PerStep per_step(tally);
  json waits = json::array();
  for (const auto& [name, cost] : tally.waits) {
    if (waits.size() == kWaits) break;
    waits.push_back({{"name", name},
                     {"calls", per_step.Calls(cost.calls)},
                     {"seconds", per_step.Seconds(cost.ns)},
                     {"block", MainBlock(cost)}});
  }
  const auto own =
      tally.blocks.find({Tally::kReadBack, profile::Phase::kForward});
  if (own != tally.blocks.end()) {
    waits.push_back({{"name", Tally::kReadBack},
                     {"calls", per_step.Calls(own->second.calls)},
                     {"seconds", per_step.Seconds(own->second.ns)},
                     {"block", Tally::kReadBack},
                     {"own", true}});
  }
  return waits;
}

json Memory(const ProfileFacts& facts) {
  json memory = json::object();
  const auto peak = [&](const char* name, const std::optional<int64_t>& value) {
    if (!value) return;
    memory[name] = std::max(memory.value(name, int64_t{0}), *value);
  };
  for (const ProfiledStep& step : facts.steps) {
    const report::MemoryCounters& counters = step.progress.memory;
    peak("peak_allocated_bytes", counters.peak_allocated_bytes);
    peak("peak_driver_bytes", counters.driver_allocated_bytes);
    peak("peak_footprint_bytes", counters.footprint_bytes);
    peak("recommended_max_bytes", counters.recommended_max_bytes);
  }
  if (const auto growth = facts.MemoryGrowth())
    memory["growth_ratio"] = *growth;
  return memory;
}

json Fallbacks(const report::Counts& counts) {
  json fallbacks = json::object();
  for (const auto& [name, count] : counts) {
    if (fallbacks.size() == kFallbacks) break;
    fallbacks[name] = count;
  }
  return fallbacks;
}

}  // namespace

json ProfileResult(const ProfileFacts& facts) {
  json result = {{"device", facts.device},
                 {"gradients", facts.gradients},
                 {"unknown", facts.unknown},
                 {"steps", Steps(facts)},
                 {"captures", Captures(facts)},
                 {"operators", Operators(facts.tally)},
                 {"blocks", Blocks(facts.tally)},
                 {"layers", Layers(facts.tally)},
                 {"gaps", Gaps(facts.tally)},
                 {"waits", Waits(facts.tally)},
                 {"cpu_fallback_ops", Fallbacks(facts.fallbacks())},
                 {"memory", Memory(facts)}};
  if (facts.trace) {
    result["trace"] = {{"file", facts.trace->name},
                       {"size_bytes", facts.trace->bytes},
                       {"steps", facts.trace->steps},
                       {"events", facts.trace->events}};
  }
  return result;
}

namespace {

constexpr absl::Duration kLongest = absl::Seconds(20);  // for a part
// The loader's thread has made these ahead: their data are in caches.
constexpr int64_t kStepsAhead = 2;
constexpr size_t kKeptSteps = 6;  // the first of them warms up

// How many steps the loader can be timed for. In the first epoch it stops at
// the end: the samples after it were already read by the run, and decoded
// images are cached.
int64_t StepsToMake(const data::Loader& loader, int64_t steps) {
  const data::Cursor at = loader.cursor();
  const int64_t left = loader.steps_per_epoch() - at.step_in_epoch;
  const int64_t wanted = steps + kStepsAhead;
  return at.epoch == 0 && left > kStepsAhead ? std::min(wanted, left) : wanted;
}

absl::Duration Monotonic() { return base::Clock::Real().Monotonic(); }

absl::Status CheckStop(train::Observer& observer) {
  base::CountWork();
  if (observer.stop_request() == train::StopRequest::kNone) {
    return absl::OkStatus();
  }
  return absl::CancelledError("stopped while a part of a step was timed");
}

}  // namespace

absl::StatusOr<BatchTimes> TimeBatches(train::Prepared& run, int64_t steps,
                                       train::Observer& observer) {
  // Seek ends the thread that makes batches ahead.
  run.loader->Seek(run.loader->cursor());
  data::Loader loader(*run.loaded.data.train,
                      run.loaded.shapes().TrainOptions(run.micro_batch_rows));
  loader.Seek(run.loader->cursor());
  BatchTimes times;
  const int64_t most = StepsToMake(loader, steps);
  const absl::Duration begin = Monotonic();
  for (int64_t i = 0; i < most && Monotonic() - begin < kLongest; ++i) {
    RETURN_IF_ERROR(CheckStop(observer));
    const absl::Duration start = Monotonic();
    ASSIGN_OR_RETURN(auto batches, loader.NextStep());
    if (i >= kStepsAhead) {
      times.seconds.push_back(absl::ToDoubleSeconds(Monotonic() - start));
    }
    if (times.batches.size() < kKeptSteps) {
      times.batches.push_back(std::move(batches));
    }
  }
  return times;
}

absl::StatusOr<std::vector<double>> TimeForward(
    train::Prepared& run, const std::vector<std::vector<data::Batch>>& batches,
    train::Observer& observer) {
  const train::TrainingSubject subject = run.loaded.subject();
  at::NoGradGuard no_grad;
  subject.trainable.set_training(false);
  subject.network.set_training(false);
  std::vector<double> seconds;
  const absl::Duration begin = Monotonic();
  for (size_t i = 0; i < batches.size() && Monotonic() - begin < kLongest;
       ++i) {
    double step = 0;
    for (const data::Batch& batch : batches[i]) {
      RETURN_IF_ERROR(CheckStop(observer));
      const device::StepScope scope;
      const train::StepInputs inputs =
          subject.pipeline.Inputs({&batch, 1}, subject.device);
      subject.device.Synchronize();
      const absl::Duration start = Monotonic();
      for (const train::BatchInputs& input : inputs.batches) {
        const train::BatchLoss loss = subject.pipeline.Loss(input);
      }
      subject.device.Synchronize();
      step += absl::ToDoubleSeconds(Monotonic() - start);
    }
    if (i > 0 || batches.size() == 1) seconds.push_back(step);
  }
  return seconds;
}

using train::StopRequest;

void ProfiledSteps::OnStep(const report::Progress& progress) {
  const std::optional<StepKind> kind = plan_.Next();
  base::Check(kind.has_value(), "the plan has the step");
  plan_.Taken();
  steps_.push_back({*kind, progress});
  between_ = true;
  // The run itself has no end: its total is the plan's.
  report::Progress forwarded = progress;
  forwarded.total_steps = plan_.total();
  observer_.OnStep(forwarded);
}

StopRequest ProfiledSteps::stop_request() {
  {
    // The observer may block during a pause.
    const profile::BlockMark mark("mpsd::held");
    const StopRequest asked = observer_.stop_request();
    // Never kPreempt, for which the run would save a checkpoint.
    if (asked != StopRequest::kNone) return StopRequest::kCancel;
  }
  if (complete_) return StopRequest::kCancel;
  if (!std::exchange(between_, false)) return StopRequest::kNone;
  if (recorder_.recording() && plan_.EndsSession()) EndSession();
  const std::optional<StepKind> next = plan_.Next();
  complete_ = !next.has_value();
  if (complete_) return StopRequest::kCancel;
  if (*next == StepKind::kProfiled && !recorder_.recording()) {
    session_steps_ = 0;
    recorder_.Start();
  }
  if (*next == StepKind::kProfiled) ++session_steps_;
  return StopRequest::kNone;
}

void ProfiledSteps::EndSession() {
  const profile::Capture capture = recorder_.Stop();
  session_events_ = static_cast<int64_t>(capture.events.size());
  tally_.Add(capture);
  plan_.Note(session_events_, session_steps_);
}

void ProfiledSteps::Finish(const std::filesystem::path& folder,
                           ProfileFacts& facts) {
  facts.steps = std::move(steps_);
  facts.tally = std::move(tally_);
  const std::string name = "trace.json.gz";
  const std::filesystem::path json = folder / "trace.json";
  absl::Status saved = recorder_.Save(json);
  if (saved.ok()) {
    const auto bytes = profile::PackTrace(json, folder / name);
    saved = bytes.status();
    if (saved.ok()) {
      facts.trace = {name, *bytes, session_steps_, session_events_};
    }
  }
  if (saved.ok()) return;
  facts.unknown.push_back(
      absl::StrCat("there is no trace: ", std::string(saved.message())));
}

std::optional<StepKind> ProfilePlan::Next() const {
  if (left_ == 0) return std::nullopt;
  return next_;
}

void ProfilePlan::Taken() {
  ++taken_;
  ++in_part_;
  const auto go_on = [this](StepKind next) {
    next_ = next;
    in_part_ = 0;
  };
  switch (next_) {
    case StepKind::kWarmUp:
      if (in_part_ == warm_up_) go_on(StepKind::kPlain);
      break;
    case StepKind::kPlain:
      if (in_part_ == kPlainSteps) go_on(StepKind::kProfiled);
      break;
    case StepKind::kProfiled:
      --left_;
      if (in_part_ == session_) go_on(StepKind::kPlain);
      break;
  }
}

void ProfilePlan::Note(int64_t events, int64_t steps) {
  const int64_t each =
      std::max<int64_t>(events / std::max<int64_t>(steps, 1), 1);
  session_ = std::clamp<int64_t>(kSessionEvents / each, 1, kSessionSteps);
}

int64_t ProfilePlan::total() const {
  // The sessions to come, and what this one still needs.
  int64_t total = taken_ + left_;
  int64_t profiled = left_;
  switch (next_) {
    case StepKind::kWarmUp:
      total += warm_up_ - in_part_ + kPlainSteps;
      break;
    case StepKind::kPlain:
      if (left_ > 0) total += kPlainSteps - in_part_;
      break;
    case StepKind::kProfiled:
      profiled += in_part_;
      break;
  }
  const int64_t sessions = (profiled + session_ - 1) / session_;
  return total + std::max<int64_t>(sessions - 1, 0) * kPlainSteps;
}

namespace {

namespace fs = std::filesystem;

constexpr int64_t kLoaderSteps = 20;
// Above this overhead the times of short operators are the profiler's own.
constexpr double kLargeOverhead = 0.5;

// The folder that the run writes to, removed with the study.
class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) { Remove(); }
  ~Scratch() { Remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  void Remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path path_;
};

// The training, but without an end and without saving.
spec::TrainSpec WithoutEnd(spec::TrainSpec spec) {
  spec.training.max_steps = std::numeric_limits<int32_t>::max();
  spec.training.save_steps = 0;
  spec.training.sample_prompts.clear();
  spec.training.early_stopping_patience.reset();
  spec.training.load_best_model_at_end = false;
  return spec;
}

void NoteUnknown(ProfileFacts& facts) {
  if (facts.device_is_apart && !facts.tally.device_reports_times) {
    facts.unknown.emplace_back(
        "the device's own times: all times are the host's, which queues work "
        "and waits for it at the end of a step");
  }
  if (facts.Overhead() > kLargeOverhead) {
    facts.unknown.push_back(absl::StrFormat(
        "operators' times without the profiler: a step takes %.0f %% longer "
        "under the profiler, which makes short operators look long",
        facts.Overhead() * 100));
  }
}

}  // namespace

absl::StatusOr<Found> Profile(const Study& study) {
  ASSIGN_OR_RETURN(const auto options,
                   runbook::ProfileOptionsFromJson(study.options));
  const ProfilePlan plan(options.warm_up_steps,
                         options.steps.value_or(static_cast<int64_t>(
                             study.thresholds.Get("profile.steps"))));
  const Scratch scratch(study.context.out_dir / "profiled");
  train::RunContext context = study.context;
  context.out_dir = scratch.path();
  ProfiledSteps steps(plan, study.observer);
  ASSIGN_OR_RETURN(auto opened,
                   train::Open(WithoutEnd(study.spec), context, steps));
  ASSIGN_OR_RETURN(auto loaded, train::Load(std::move(opened)));
  ASSIGN_OR_RETURN(auto run, train::Prepare(std::move(loaded)));
  run.eval_loader.reset();

  steps.Begin();
  ASSIGN_OR_RETURN(const auto end, train::Loop(run));
  if (!steps.complete()) return absl::CancelledError("the study was stopped");

  ProfileFacts facts;
  facts.device = run.loaded.device->name();
  facts.device_is_apart =
      run.loaded.device->traits().memory != backend::MemoryPlace::kHost;
  facts.gradients = run.stepper->gradient_path();
  steps.Finish(study.context.out_dir, facts);
  study.observer.OnStage("timing the loader and the forward alone", 0);
  ASSIGN_OR_RETURN(auto loader, TimeBatches(run, kLoaderSteps, study.observer));
  ASSIGN_OR_RETURN(auto forward,
                   TimeForward(run, loader.batches, study.observer));
  facts.data_seconds = std::move(loader.seconds);
  facts.forward_seconds = std::move(forward);
  NoteUnknown(facts);
  return Found{ProfileResult(facts), FindingsOf(facts, study.thresholds)};
}

}  // namespace mpsd::study
