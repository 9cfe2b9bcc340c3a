// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_facts.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace mpsd::study {
namespace {

using profile::Tally;
using runbook::Finding;
using runbook::Verdict;

constexpr size_t kFewestForGrowth = 10;
constexpr size_t kNamesShown = 5;

std::string Percent(double part) {
  return absl::StrFormat("%.3g %%", part * 100);
}
std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.3g ms", seconds * 1000);
}

Verdict WarnIf(bool fits) { return fits ? Verdict::kWarn : Verdict::kPass; }

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

Finding DataFinding(const ProfileFacts& facts,
                    const runbook::Thresholds& thresholds) {
  const double share = Ratio(facts.DataWaitSeconds(), facts.StepSeconds());
  const double threshold = thresholds.Get("profile.data_share");
  const double alone = Mean(facts.data_seconds);
  const double work = facts.WorkSeconds(StepKind::kPlain);
  // Waits for a fast loader are caused by a busy machine: the loader's own
  // thread makes the batches.
  const bool slow = facts.data_seconds.empty() || alone >= threshold * work;
  Finding finding = {.name = "profile.data",
                     .verdict = WarnIf(share >= threshold && slow),
                     .found = absl::StrCat("a step waits for data for ",
                                           Percent(share), " of its time"),
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
  if (finding.verdict == Verdict::kWarn) {
    finding.advice =
        "data starves the device: fix the data plane before the model. Make "
        "images smaller before the upload, keep model cache and data on a "
        "local disk, stop other work on the CPU; then profile again";
  }
  return finding;
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
  Finding finding = {
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
    finding.advice =
        "a speedup near 1x comes from sync points: each such call empties the "
        "device's queue. Report it with the trace: mpsd's own step reads back "
        "once";
  }
  return finding;
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
  const bool fits = kinds > threshold;
  Finding finding = {
      .name = "profile.fallback",
      .verdict = WarnIf(fits),
      .found =
          counts.empty()
              ? "no operator fell back to the CPU"
              : absl::StrCat("on the CPU, for lack of a kernel on the device: ",
                             absl::StrJoin(named, ", "),
                             counts.size() > named.size() ? ", …" : ""),
      .value = kinds,
      .threshold = threshold,
      .unit = "operators"};
  if (fits) {
    finding.advice =
        "a kernel gap: each call copies to the CPU and back. Note the names "
        "(`mpsctl note`); use a newer torch, another model or attention, or "
        "train on another device";
  }
  return finding;
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

}  // namespace mpsd::study
