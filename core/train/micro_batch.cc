// SPDX-License-Identifier: Apache-2.0
#include "core/train/micro_batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/device/device.h"
#include "core/host/machine.h"
#include "core/train/run_folder.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
using spec::Recompute;

constexpr size_t kMaxCandidates = 8;
constexpr double kNoFaster = 0.97;  // share of the previous trial's time
constexpr char kSelective[] = "selective", kFull[] = "full";

void PutChoice(const MicroBatch& choice, json& j) {
  j["rows"] = choice.rows;
  const bool checkpointing = choice.recompute != Recompute::kNone;
  j["gradient_checkpointing"] = checkpointing;
  if (checkpointing) {
    j["recompute_granularity"] =
        choice.recompute == Recompute::kSelective ? kSelective : kFull;
  }
}

json PlanJson(const MicroBatchPlan& plan, int64_t batch) {
  json trials = json::array();
  for (const MicroBatchTrial& t : plan.trials) {
    json& trial = trials.emplace_back();
    PutChoice(t.choice, trial);
    trial["step_seconds"] = t.step_seconds;
    trial["peak_bytes"] = t.peak_bytes;
    trial["tried"] = t.tried;
    if (t.out_of_memory) trial["out_of_memory"] = true;
  }
  json j;
  PutChoice(plan.chosen, j);
  base::CheckLess(0, plan.chosen.rows, "rows of the chosen micro-batch");
  j["accumulation"] = batch / plan.chosen.rows;
  j["from"] = plan.from;
  j["trials"] = trials;
  return j;
}

std::optional<MicroBatch> ChoiceOf(const json& j) {
  if (!j.is_object() || !j.value("rows", json()).is_number_integer() ||
      !j.value("gradient_checkpointing", json()).is_boolean()) {
    return std::nullopt;
  }
  MicroBatch choice{j["rows"].get<int64_t>(), Recompute::kNone};
  if (j["gradient_checkpointing"].get<bool>()) {
    choice.recompute = j.value("recompute_granularity", json()) == kSelective
                           ? Recompute::kSelective
                           : Recompute::kFull;
  }
  return choice;
}

// One pass over the candidates, all with the same recomputation.
class CandidatePass {
 public:
  CandidatePass(const MicroBatchSearch& search, Recompute recompute)
      : search_(search), recompute_(recompute) {}

  MicroBatch With(int64_t rows) const { return {rows, recompute_}; }

  // Whether `rows` should fit. The first trial uses the estimate; later ones
  // the previous trial, whose memory beyond the resident bytes grows with the
  // rows.
  bool Fits(int64_t rows) {
    if (before_.peak_bytes == 0) {
      expected_ = search_.estimate ? search_.estimate(With(rows)) : 0;
      return expected_ <= search_.limit_bytes;
    }
    const double of_a_batch = std::max<double>(
        0, static_cast<double>(before_.peak_bytes - search_.resident_bytes));
    expected_ = search_.resident_bytes +
                static_cast<int64_t>(of_a_batch * static_cast<double>(rows) /
                                     static_cast<double>(before_.choice.rows));
    return expected_ <= search_.limit_bytes;
  }
  MicroBatchTrial Untried(int64_t rows) const {
    return {With(rows), 0, expected_, false};
  }
  // Whether to try more rows: not after two trials in a row without gain.
  bool Faster(const MicroBatchTrial& trial) {
    const bool faster = before_.peak_bytes == 0 ||
                        trial.step_seconds < kNoFaster * before_.step_seconds;
    before_ = trial;
    no_gain_ = faster ? 0 : no_gain_ + 1;
    return no_gain_ < 2;
  }

 private:
  const MicroBatchSearch& search_;
  const Recompute recompute_;
  MicroBatchTrial before_;
  int64_t expected_ = 0;
  int no_gain_ = 0;
};

// The kinds of recomputation to try, from the one that keeps most to the one
// that keeps least; a job's own demand is the only one.
std::vector<Recompute> KindsOf(const MicroBatchSearch& search) {
  if (search.demanded != Recompute::kNone) return {search.demanded};
  if (!search.knows_selective) return {Recompute::kNone, Recompute::kFull};
  return {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
}

// The fastest that fits; if none does, the smallest.
MicroBatch Choose(const std::vector<MicroBatchTrial>& trials, int64_t limit) {
  base::Check(!trials.empty(), "a choice comes after a trial");
  const MicroBatchTrial* best = nullptr;
  for (const MicroBatchTrial& t : trials) {
    if (!t.tried || t.out_of_memory || t.peak_bytes > limit) continue;
    if (best == nullptr || t.step_seconds < kNoFaster * best->step_seconds ||
        (t.step_seconds <= best->step_seconds / kNoFaster &&
         t.peak_bytes < best->peak_bytes)) {
      best = &t;
    }
  }
  if (best != nullptr) return best->choice;
  const Recompute last = trials.back().choice.recompute;
  return {trials.front().choice.rows,
          last == Recompute::kNone ? Recompute::kFull : last};
}

}  // namespace

std::vector<int64_t> CandidateRows(int64_t batch, int64_t max_rows) {
  std::vector<int64_t> rows;
  for (int64_t n = 1; n <= std::min(batch, std::max<int64_t>(max_rows, 1));
       ++n) {
    if (batch % n == 0) rows.push_back(n);
  }
  // Drops every second candidate, never the largest.
  while (rows.size() > kMaxCandidates) {
    std::vector<int64_t> fewer;
    for (size_t i = (rows.size() + 1) % 2; i < rows.size(); i += 2) {
      fewer.push_back(rows[i]);
    }
    rows = std::move(fewer);
  }
  return rows;
}

absl::StatusOr<MicroBatchPlan> FindMicroBatch(
    const MicroBatchSearch& search,
    const std::function<absl::StatusOr<MicroBatchTrial>(const MicroBatch&)>&
        measure) {
  MicroBatchPlan plan;
  plan.from = "trial";
  const auto candidates = CandidateRows(search.batch, search.max_rows);
  const std::vector<Recompute> kinds = KindsOf(search);
  base::Check(!candidates.empty() && !kinds.empty(), "there is a candidate");
  bool tried = false;
  for (const Recompute kind : kinds) {
    CandidatePass pass(search, kind);
    bool short_of_memory = false;
    for (const int64_t rows : candidates) {
      short_of_memory = !pass.Fits(rows);
      if (short_of_memory) {
        plan.trials.push_back(pass.Untried(rows));
        break;
      }
      ASSIGN_OR_RETURN(auto trial, measure(pass.With(rows)));
      tried = true;
      plan.trials.push_back(trial);
      short_of_memory =
          trial.out_of_memory || trial.peak_bytes > search.limit_bytes;
      if (short_of_memory || !pass.Faster(trial)) break;
    }
    // Memory did not end this pass, so recomputing would only be slower.
    if (!short_of_memory) break;
  }
  if (!tried) {
    ASSIGN_OR_RETURN(
        auto trial,
        measure(CandidatePass(search, kinds.back()).With(candidates.front())));
    plan.trials.push_back(trial);
  }
  plan.chosen = Choose(plan.trials, search.limit_bytes);
  return plan;
}

std::string ToJson(const MicroBatchPlan& plan, int64_t batch) {
  return PlanJson(plan, batch).dump();
}

std::optional<MicroBatch> ReadChoiceOfRun(const fs::path& folder,
                                          int64_t batch) {
  const auto choice = ChoiceOf(ReadRun(folder).value("micro_batch", json()));
  if (!choice || choice->rows < 1 || batch % choice->rows != 0) {
    return std::nullopt;
  }
  return choice;
}

namespace {

// The share of the device's recommended memory, or of the machine's, that may
// be used. The rest is left to memory that is not counted.
constexpr double kUsable = 0.9;
// A short trial is repeated until the runs took kEnoughSeconds together, but at
// most kMaxRepeats times: one short run alone is too noisy.
constexpr double kEnoughSeconds = 0.2;
constexpr int kMaxRepeats = 3;

double Now() { return absl::ToDoubleSeconds(base::Clock::Real().Monotonic()); }

}  // namespace

MicroBatchTrials::MicroBatchTrials(
    const TrainingSubject& subject, Stepper& stepper,
    const data::Source& source, data::LoaderOptions options,
    std::function<int64_t(const MicroBatch&)> estimate, Attempt attempt)
    : subject_(subject),
      stepper_(stepper),
      source_(source),
      options_(options),
      estimate_(std::move(estimate)),
      attempt_(std::move(attempt)),
      network_options_(subject.network.options()),
      cpu_generator_(device::CpuRngState()),
      device_generator_(subject.device.RngState()),
      resident_bytes_(HeldBytes()) {}

MicroBatchTrials::~MicroBatchTrials() {
  subject_.trainable.parameters().ZeroGradients();
  subject_.network.set_options(network_options_);
  subject_.device.EmptyCache();
  subject_.device.SetRngState(device_generator_);
  device::SetCpuRngState(cpu_generator_);
}

int64_t MicroBatchTrials::limit_bytes() const {
  const auto recommended = subject_.device.GetMemory().recommended_max;
  const int64_t all = recommended.value_or(host::PhysicalMemoryBytes());
  return static_cast<int64_t>(kUsable * static_cast<double>(all));
}

int64_t MicroBatchTrials::HeldBytes() const {
  const device::Memory memory = subject_.device.GetMemory();
  if (memory.driver_allocated) return *memory.driver_allocated;
  return memory.current_allocated.value_or(host::ProcessFootprintBytes());
}

// The batch to measure. Packed rows are all about equally long, so the first
// step's are used. Otherwise the longest samples of the data set, so that no
// batch of training needs more than the trial.
absl::StatusOr<data::Batch> MicroBatchTrials::LongestRows(int64_t rows) const {
  if (options_.packing) {
    data::LoaderOptions options = options_;
    options.batch_size = rows;
    options.gradient_accumulation_steps = 1;
    ASSIGN_OR_RETURN(auto step, data::Loader(source_, options).NextStep());
    base::Check(!step.empty(), "a step has micro-batches");
    return std::move(step.front());
  }
  base::CheckLess(0, source_.size(), "samples to be tried");
  std::vector<int64_t> order(static_cast<size_t>(source_.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](int64_t a, int64_t b) {
    return source_.length(a) > source_.length(b);
  });
  std::vector<std::vector<int64_t>> chosen;
  for (int64_t i = 0; i < rows; ++i) {
    chosen.push_back({order[i % source_.size()]});
  }
  return source_.Collate(
      chosen,
      {.training = true, .seed = options_.seed, .padding = options_.padding});
}

double MicroBatchTrials::SecondsOf(const std::vector<data::Batch>& batches) {
  const device::StepScope scope;
  const double start = Now();
  stepper_.AccumulateGradients(batches);
  subject_.device.Synchronize();
  return Now() - start;
}

void MicroBatchTrials::Run(const std::vector<data::Batch>& batches,
                           int64_t batch, MicroBatchTrial& trial) {
  SecondsOf(batches);  // not measured: the first run compiles and allocates
  const auto peak = subject_.device.GetMemory().peak_allocated;
  const int64_t held = HeldBytes();
  double seconds = SecondsOf(batches);
  double all = seconds;
  for (int i = 1; i < kMaxRepeats && all < kEnoughSeconds; ++i) {
    const double again = SecondsOf(batches);
    seconds = std::min(seconds, again);
    all += again;
  }
  trial.step_seconds = seconds * static_cast<double>(batch) /
                       static_cast<double>(trial.choice.rows);
  // Without a peak counter the memory held after a run is used, which misses
  // what was freed during it: never less than the estimate.
  trial.peak_bytes = peak ? *peak : std::max(held, estimate_(trial.choice));
}

absl::StatusOr<MicroBatchTrial> MicroBatchTrials::Measure(
    const MicroBatch& choice, int64_t batch) {
  model::RunOptions options = network_options_;
  options.recompute = choice.recompute;
  subject_.network.set_options(options);
  ASSIGN_OR_RETURN(auto rows, LongestRows(choice.rows));
  const std::vector<data::Batch> batches = {std::move(rows)};
  subject_.device.EmptyCache();
  subject_.device.ResetPeak();
  MicroBatchTrial trial{choice};
  const auto run = [&] { Run(batches, batch, trial); };
  absl::Status ran;
  if (attempt_) {
    ran = attempt_(run);
  } else {
    run();
  }
  if (!absl::IsResourceExhausted(ran)) {
    if (!ran.ok()) return ran;
    return trial;
  }
  // What the failed trial queued must end before its memory is free for the
  // next one.
  subject_.device.Synchronize();
  subject_.trainable.parameters().ZeroGradients();
  subject_.device.EmptyCache();
  trial.out_of_memory = true;
  trial.step_seconds = 0;
  trial.peak_bytes =
      std::max(subject_.device.GetMemory().peak_allocated.value_or(0),
               estimate_(choice));
  return trial;
}

}  // namespace mpsd::train
