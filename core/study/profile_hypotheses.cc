// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_hypotheses.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace mpsd::study {
namespace {

using profile::Tally;
using runbook::Finding;
using runbook::Verdict;

constexpr size_t kNamesShown = 5;
// A layer is not blamed for less than this part of a step.
constexpr double kSmallestPart = 0.02;
constexpr size_t kFewestLayers = 3;
constexpr size_t kFewestForCliff = 9;  // steps: three for each third

// A row of the table that was looked at.
struct Row {
  Finding finding;
  // The part of a step's time that it explains, 0 to 1: orders those that fit.
  double cost = 0;
};

std::string Percent(double part) {
  return absl::StrFormat("%.3g %%", part * 100);
}
std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.3g ms", seconds * 1000);
}

Verdict WarnIf(bool fits) { return fits ? Verdict::kWarn : Verdict::kPass; }

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

Row Data(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const double share = Ratio(facts.DataWaitSeconds(), facts.StepSeconds());
  const double threshold = thresholds.Get("profile.data_share");
  const double alone = Mean(facts.data_seconds);
  const double work = facts.WorkSeconds(StepKind::kPlain);
  // Waits for a loader that is fast are those for a busy machine: a thread of
  // its own makes the batches.
  const bool slow = facts.data_seconds.empty() || alone >= threshold * work;
  Row row;
  row.cost = share;
  row.finding = {.name = "profile.data",
                 .verdict = WarnIf(share >= threshold && slow),
                 .found = absl::StrCat("a step waits for data for ",
                                       Percent(share), " of its time"),
                 .value = share,
                 .threshold = threshold,
                 .unit = "ratio"};
  if (!facts.data_seconds.empty()) {
    absl::StrAppend(&row.finding.found, "; its batches alone take ",
                    Milliseconds(alone), ", its work ", Milliseconds(work));
  }
  if (share >= threshold && !slow) {
    absl::StrAppend(&row.finding.found,
                    ": not the loader, but other work on this machine's CPU "
                    "delays it");
  }
  if (row.finding.verdict == Verdict::kWarn) {
    row.finding.advice =
        "data starves the device: mend the data plane before the model. Make "
        "images smaller before the upload, keep model cache and data on a "
        "local disk, stop other work on the CPU; then profile again";
  }
  return row;
}

Row Blocking(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const Tally& tally = facts.tally;
  const double steps = static_cast<double>(std::max<int64_t>(tally.steps, 1));
  const double threshold = thresholds.Get("profile.blocking_copies");
  int64_t calls = 0, ns = 0;
  std::vector<std::string> named;
  for (const auto& [name, cost] : tally.waits) {
    calls += cost.calls;
    ns += cost.ns;
    const auto most = std::max_element(
        cost.blocks.begin(), cost.blocks.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (named.size() < kNamesShown) {
      named.push_back(absl::StrFormat("%s, %.3g a step, in '%s'", name,
                                      static_cast<double>(cost.calls) / steps,
                                      most->first));
    }
  }
  const double each = static_cast<double>(calls) / steps;
  const bool fits = calls > 0 && each > threshold;
  Row row;
  row.cost = Ratio(static_cast<double>(ns), static_cast<double>(tally.step_ns));
  row.finding = {
      .name = "profile.blocking",
      .verdict = WarnIf(fits),
      .found = named.empty()
                   ? "the host waits for the device once a step, at its end"
                   : absl::StrCat(
                         "the host waits for the device within a step: ",
                         absl::StrJoin(named, "; "), "; ",
                         Milliseconds(static_cast<double>(ns) / 1e9 / steps),
                         " a step"),
      .value = each,
      .threshold = threshold,
      .unit = "calls a step"};
  if (fits) {
    row.finding.advice =
        "speedup near 1x comes of sync points: each such call empties the "
        "device's queue. Report it with the trace: mpsd's own step reads back "
        "once";
  }
  return row;
}

Row Fallback(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const double threshold = thresholds.Get("profile.fallback_operators");
  const report::Counts& counts = facts.fallbacks();
  const auto kinds = static_cast<double>(counts.size());
  Row row;
  std::vector<std::string> named;
  for (const auto& [name, count] : counts) {
    if (named.size() < kNamesShown) {
      named.push_back(absl::StrCat(name, " (", count, ")"));
    }
    const auto cost = facts.tally.operators.find(name);
    if (cost == facts.tally.operators.end()) continue;
    row.cost += Ratio(static_cast<double>(cost->second.self_ns),
                      static_cast<double>(facts.tally.step_ns));
  }
  const bool fits = kinds > threshold;
  row.finding = {
      .name = "profile.fallback",
      .verdict = WarnIf(fits),
      .found = counts.empty()
                   ? "no operator fell back to the CPU"
                   : absl::StrCat("on the CPU, for want of a kernel "
                                  "on the device: ",
                                  absl::StrJoin(named, ", "),
                                  counts.size() > named.size() ? ", …" : ""),
      .value = kinds,
      .threshold = threshold,
      .unit = "operators"};
  if (fits) {
    row.finding.advice =
        "a kernel gap: each call copies to the CPU and back. Note the names in "
        "the logbook; take a newer torch, another model or attention, or train "
        "on another device";
  }
  return row;
}

// A layer by the time of its slowest phase against the median layer's.
struct SlowLayer {
  int64_t index = 0;
  profile::Phase phase = profile::Phase::kForward;
  double ratio = 0;
  int64_t excess_ns = 0;  // over all steps
};

std::optional<SlowLayer> Slowest(const Tally& tally) {
  std::optional<SlowLayer> slowest;
  for (const profile::Phase phase :
       {profile::Phase::kForward, profile::Phase::kBackward,
        profile::Phase::kAgain}) {
    const auto time = [&](const profile::LayerCost& cost) {
      const auto i = static_cast<size_t>(phase);
      return tally.device_told ? cost.device_ns[i] : cost.ns[i];
    };
    std::vector<double> times;
    for (const auto& [index, cost] : tally.layers) {
      if (time(cost) > 0) times.push_back(static_cast<double>(time(cost)));
    }
    if (times.size() < kFewestLayers) continue;
    const double median = Median(times);
    for (const auto& [index, cost] : tally.layers) {
      const double ratio = static_cast<double>(time(cost)) / median;
      if (slowest && ratio <= slowest->ratio) continue;
      slowest = {index, phase, ratio,
                 time(cost) - static_cast<int64_t>(median)};
    }
  }
  return slowest;
}

// The operator by which layer `index` exceeds the median of all most; empty
// where none does.
std::string ExcessOperator(const Tally& tally, int64_t index) {
  std::string worst;
  double most = 0;
  for (const auto& [name, ns] : tally.layers.at(index).operators) {
    std::vector<double> of_all;
    for (const auto& [other, cost] : tally.layers) {
      const auto found = cost.operators.find(name);
      of_all.push_back(found == cost.operators.end()
                           ? 0
                           : static_cast<double>(found->second));
    }
    const double excess = static_cast<double>(ns) - Median(of_all);
    if (excess <= most) continue;
    most = excess;
    worst = name;
  }
  return worst;
}

Row Layer(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const Tally& tally = facts.tally;
  const double threshold = thresholds.Get("profile.slow_layer");
  Row row;
  row.finding.name = "profile.slow_layer";
  const std::optional<SlowLayer> slowest = Slowest(tally);
  if (!slowest) {
    row.finding.found = "the network has too few layers to compare";
    return row;
  }
  row.cost = Ratio(static_cast<double>(slowest->excess_ns),
                   static_cast<double>(tally.step_ns));
  const bool fits = slowest->ratio >= threshold && row.cost >= kSmallestPart;
  row.finding = {
      .name = "profile.slow_layer",
      .verdict = WarnIf(fits),
      .found = absl::StrFormat(
          "the slowest layer, %d, takes %.3g times a layer's time %s",
          slowest->index, slowest->ratio,
          slowest->phase == profile::Phase::kForward    ? "forward"
          : slowest->phase == profile::Phase::kBackward ? "backward"
                                                        : "recomputed"),
      .value = slowest->ratio,
      .threshold = threshold,
      .unit = "times"};
  if (!fits) return row;
  const std::string name = ExcessOperator(tally, slowest->index);
  if (!name.empty()) {
    absl::StrAppend(&row.finding.found, ", above all in ", name);
  }
  row.finding.advice =
      "one layer slow: a kernel gap. Look at the layer in the trace, and swap "
      "the operator: another dtype, attention or shape";
  return row;
}

// The device's utilisation as the machine tells it, for any process; else the
// share of time that this job's kernels ran.
std::optional<double> Busy(const ProfileFacts& facts) {
  if (const auto ratio = facts.Utilization()) return ratio;
  const Tally& tally = facts.tally;
  if (!tally.device_told || tally.device_window_ns <= 0) return std::nullopt;
  return Ratio(static_cast<double>(tally.device_busy_ns),
               static_cast<double>(tally.device_window_ns));
}

Row Idle(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const double threshold = thresholds.Get("compare.gpu_utilization");
  Row row;
  row.finding.name = "profile.device_idle";
  const std::optional<double> busy =
      facts.device_is_apart ? Busy(facts) : std::nullopt;
  if (!busy) {
    row.finding.found = facts.device_is_apart
                            ? "the device does not tell how busy it is"
                            : "the host computes itself: no other device idles";
    return row;
  }
  row.cost = 1 - *busy;
  row.finding = {.name = "profile.device_idle",
                 .verdict = WarnIf(*busy < threshold),
                 .found = absl::StrCat("the device is busy for ",
                                       Percent(*busy), " of the time"),
                 .value = *busy,
                 .threshold = threshold,
                 .unit = "ratio"};
  if (row.finding.verdict == Verdict::kWarn) {
    row.finding.advice =
        "speedup near 1x: the device waits for the host. Check data, sync "
        "points and gaps above, then raise the batch before the model";
  }
  return row;
}

Row HostGaps(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const Tally& tally = facts.tally;
  const double threshold = thresholds.Get("profile.host_gaps");
  const double share = Ratio(static_cast<double>(tally.gaps.ns),
                             static_cast<double>(tally.step_ns));
  Row row;
  row.cost = share;
  row.finding = {
      .name = "profile.host_gaps",
      .found = absl::StrCat(
          "no operator runs for ", Percent(share),
          " of a step; the longest gap, ",
          Milliseconds(static_cast<double>(tally.gaps.longest_ns) / 1e9),
          ", is in '", tally.gaps.longest_block, "'"),
      .value = share,
      .threshold = threshold,
      .unit = "ratio"};
  // Where the host computes itself, its gaps cost nobody else's time.
  if (!facts.device_is_apart) return row;
  row.finding.verdict = WarnIf(share >= threshold);
  if (row.finding.verdict == Verdict::kWarn) {
    row.finding.advice =
        "the host is too slow for the device: raise the batch, so that each "
        "launch brings more work, and stop other work on the CPU";
  }
  return row;
}

// Work by token, so that long and short rows compare.
double WorkOf(const ProfiledStep& step) {
  const auto tokens = step.progress.padded_tokens.value_or(0);
  return tokens > 0 ? step.work() / static_cast<double>(tokens) : step.work();
}

Row Cliff(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const double threshold = thresholds.Get("profile.cliff");
  std::vector<double> work;
  for (const ProfiledStep& step : facts.steps) {
    if (step.kind == StepKind::kProfiled) work.push_back(WorkOf(step));
  }
  Row row;
  row.finding.name = "profile.cliff";
  if (work.size() < kFewestForCliff) {
    row.finding.found = "too few steps to see a cliff";
    return row;
  }
  const auto third = static_cast<std::ptrdiff_t>(work.size() / 3);
  const double ratio = Ratio(Median({work.end() - third, work.end()}),
                             Median({work.begin(), work.begin() + third}));
  row.cost = ratio > 1 ? 1 - 1 / ratio : 0;
  row.finding = {
      .name = "profile.cliff",
      .verdict = WarnIf(ratio >= threshold),
      .found = absl::StrFormat(
          "the last steps take %.3g times the time of the first steady ones",
          ratio),
      .value = ratio,
      .threshold = threshold,
      .unit = "times"};
  if (row.finding.verdict == Verdict::kWarn) {
    row.finding.advice =
        "fast start, then a cliff: cache pressure or heat. Lower the batch, "
        "look at swap and the thermal level (`mpsctl doctor`), and see the "
        "memory of a longer run (`mpsctl smoke`)";
  }
  return row;
}

Row Memory(const ProfileFacts& facts, const runbook::Thresholds& thresholds) {
  const double threshold = thresholds.Get("smoke.memory_growth");
  Row row;
  row.finding.name = "profile.memory";
  const std::optional<double> growth = facts.MemoryGrowth();
  if (!growth) {
    row.finding.found =
        "too few steps, or the device does not count its tensors: `mpsctl "
        "smoke` looks at the process";
    return row;
  }
  row.cost = std::clamp(*growth, 0.0, 1.0);
  row.finding = {.name = "profile.memory",
                 .verdict = WarnIf(*growth > threshold),
                 .found = absl::StrCat("memory grows by ", Percent(*growth),
                                       " over the steady steps"),
                 .value = *growth,
                 .threshold = threshold,
                 .unit = "ratio"};
  if (row.finding.verdict == Verdict::kWarn) {
    row.finding.advice =
        "memory that grows from step to step ends as out of memory: retained "
        "tensors or ever new shapes. Run `mpsctl smoke`; take fixed lengths "
        "(training.packing) or a smaller batch";
  }
  return row;
}

Row LossDrift() {
  Row row;
  row.finding = {
      .name = "profile.loss_drift",
      .found = "a profile compares no numbers: `mpsctl compare-devices` does"};
  return row;
}

Finding Summary(const std::vector<Row>& rows) {
  std::vector<std::string> fit;
  for (const Row& row : rows) {
    if (row.finding.verdict == Verdict::kWarn) fit.push_back(row.finding.name);
  }
  Finding summary;
  summary.name = "profile.hypothesis";
  if (fit.empty()) {
    summary.verdict = Verdict::kPass;
    summary.found =
        "no hypothesis of the runbook's table fits: the time is in the work "
        "itself; see the blocks and operators";
    return summary;
  }
  summary.verdict = Verdict::kWarn;
  summary.found = absl::StrCat("fits best: ", fit.front());
  if (fit.size() > 1) {
    absl::StrAppend(&summary.found, "; fits too: ",
                    absl::StrJoin(std::next(fit.begin()), fit.end(), ", "));
  }
  return summary;
}

}  // namespace

std::vector<Finding> Hypotheses(const ProfileFacts& facts,
                                const runbook::Thresholds& thresholds) {
  std::vector<Row> rows = {Data(facts, thresholds),
                           Blocking(facts, thresholds),
                           Fallback(facts, thresholds),
                           Layer(facts, thresholds),
                           Idle(facts, thresholds),
                           HostGaps(facts, thresholds),
                           Cliff(facts, thresholds),
                           Memory(facts, thresholds),
                           LossDrift()};
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const bool fits = a.finding.verdict == Verdict::kWarn;
    if (fits != (b.finding.verdict == Verdict::kWarn)) return fits;
    return fits && a.cost > b.cost;
  });
  std::vector<Finding> findings = {Summary(rows)};
  for (Row& row : rows) findings.push_back(std::move(row.finding));
  return findings;
}

}  // namespace mpsd::study
