// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROFILE_FACTS_H_
#define MPSD_CORE_STUDY_PROFILE_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/device/tally.h"
#include "core/report/report.h"
#include "core/report/finding.h"
#include "core/report/thresholds.h"

namespace mpsd::study {

enum class StepKind {
  kWarmUp,
  kPlain,     // steady, without the profiler
  kProfiled,  // steady, under the profiler
};

struct ProfiledStep {
  StepKind kind;
  report::Progress progress;
  double data_wait() const { return progress.data_wait_seconds.value_or(0); }
  // Seconds excluding the wait for data.
  double work() const { return progress.seconds - data_wait(); }
};

struct ProfileTraceFile {
  std::string name;  // in the study's folder
  int64_t bytes = 0, steps = 0, events = 0;
};

// All measurements of a profile. FindingsOf and profile_result.h derive the
// rest from them without side effects.
struct ProfileFacts {
  std::string device;     // "cpu", "cuda", "mps"
  std::string gradients;  // GradientPath::name
  // The device works concurrently with the host, which has to wait for its
  // results.
  bool device_is_apart = false;
  std::vector<ProfiledStep> steps;
  profile::Tally tally;  // of the steps under the profiler
  // Seconds per step to make its micro-batches alone, and of the network's
  // forward alone.
  std::vector<double> data_seconds, forward_seconds;
  std::optional<ProfileTraceFile> trace;
  std::vector<std::string> not_told;  // human-readable

  // Seconds of a steady step: its work without the profiler, and its wait for
  // data under the profiler (earlier steps find data made ahead).
  double StepSeconds() const;
  double DataWaitSeconds() const;  // the mean of steps under the profiler
  // The median work of the steps of `kind`, seconds; 0 without any.
  double WorkSeconds(StepKind kind) const;
  // The relative slowdown of a step's work under the profiler; 0.1 for a tenth.
  double Overhead() const;
  // Operators on the CPU that the device lacks, over all steps.
  const report::Counts& fallbacks() const;
  // Growth of the device's live tensors from the first steady steps to the last
  // ones, relative to the former. Absent with fewer than 10 steady steps or
  // without such a counter: the process's memory includes the profiler's.
  std::optional<double> MemoryGrowth() const;
  // The mean share of time that the device was busy; absent: unknown.
  std::optional<double> Utilization() const;
};

// Findings that need no guess, each WARN above its threshold, with what to do:
//
//   profile.data      the step waits for data
//   profile.blocking  the host waits for the device within a step
//   profile.fallback  operators run on the CPU
std::vector<runbook::Finding> FindingsOf(const ProfileFacts& facts,
                                         const runbook::Thresholds& thresholds);

// 0 without any.
double Median(std::vector<double> values);
double Mean(const std::vector<double>& values);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PROFILE_FACTS_H_
