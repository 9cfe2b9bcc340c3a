// SPDX-License-Identifier: Apache-2.0
// What a plan takes from the daemon: the pace of past runs, the wait in the
// queue, which probes measured the same steps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_reader.h"

namespace mpsd::planner {

// The speed of runs of one shape: the medians of their last steps' reports.
struct Pace {
  int runs = 0;
  double tokens_per_second = 0;  // without padding, mean of the last steps
  double step_seconds = 0;       // wall time of the last step
  absl::Time newest;             // when the newest of them ended
};

// Searches the newest 50 jobs that trained `model` (as job.json names it) to
// their end for those of the shape of `spec` on `device`; uses the newest ten.
// Jobs whose owners `may_read` (empty: everyone's) excludes do not count.
// nullopt: there are none.
std::optional<Pace> PaceOfPastRuns(
    jobs::JobReader& reader, const std::string& model,
    const spec::TrainSpec& spec, const std::string& device,
    const std::function<bool(const std::string& owner)>& may_read);

// What `mpsd-worker --plan` cannot find out by itself; absent values are
// unknown (core/plan/facts.h reads it).
struct Facts {
  bool check = false;  // only the job's data are checked
  std::vector<std::string> read_roots, closed_roots;  // as of wire::Start
  std::string device;  // "mps"; "": not reported by a worker yet
  std::string chip;    // "Apple M2 Max"
  int gpu_cores = 0, cpu_cores = 0;
  int64_t memory_bytes = 0;        // of the machine
  int64_t memory_limit_bytes = 0;  // that the job's device may hold
  std::optional<int64_t> disk_free_bytes;
  std::map<std::string, double> thresholds;
  std::optional<Pace> pace;
  std::string probe_json;  // v1::ProbeResult; "": none
};

// The facts as one JSON object; omits unknown values and a `probe_json` that is
// not an object.
std::string Encode(const Facts& facts);

// The jobs ahead of the job, if it were submitted now.
struct PlanQueue {
  int64_t jobs_ahead = 0;
  std::optional<absl::Duration> wait;  // until the start; absent: unknown
  std::vector<std::string> unknown;    // reasons, human-readable
  std::string why;  // the queue holds, human-readable; "": it does not
};

// How long a job of `owner` would wait if it were queued now. Estimates the
// wait only if every job ahead has an ETA that is readable: jobs whose owners
// `may_read` (empty: everyone's) excludes have none.
PlanQueue LookAhead(
    jobs::JobReader& reader, const std::string& owner, int32_t priority,
    const std::function<bool(const std::string& owner)>& may_read);

// The part of a job.json that decides the time per token and the batching of
// rows, without the model, the data and the device: equal texts for jobs of one
// shape.
std::string SpeedShape(const spec::TrainSpec& spec);

// OK if a probe of `probed` measured the steps of `planned`: they differ only
// in what changes no step's memory and time (rates, names, lengths of the run,
// evaluation, checkpoints). InvalidArgument names a field.
absl::Status CheckSameSteps(const jobs::SubmitRequest& probed,
                            const jobs::SubmitRequest& planned);

}  // namespace mpsd::planner
