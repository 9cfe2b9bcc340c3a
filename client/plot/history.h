// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PLOT_HISTORY_H_
#define MPSD_CLIENT_PLOT_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// One value of a metric.
struct Sample {
  int64_t step = 0;    // optimizer steps before it
  double tokens = 0;   // trained on up to it; about, where steps are missing
  double seconds = 0;  // since the job first ran, pauses included
  double value = 0;    // NaN or infinite where the job's was
};

// The metrics that each optimizer step has, by their names in Progress.
std::vector<std::string> StepMetrics();
bool IsStepMetric(const std::string& metric);

// What a job's events say of one metric: one of StepMetrics(), "eval_loss", or
// a metric of the task's evaluations ("accuracy"). Steps that the job did again
// after an interruption count as they were the last time.
class History {
 public:
  // Keeps at most about `most_steps` steps (2 or more): beyond them pairs of
  // neighbours become one, of their mean value. All evaluations are kept.
  explicit History(std::string metric,
                   size_t most_steps = std::numeric_limits<size_t>::max());

  // Takes an event that comes after those taken before.
  void Add(const v1::JobEvent& event);

  const std::vector<Sample>& steps() const { return steps_; }
  const std::vector<Sample>& evaluations() const { return evaluations_; }
  // The names of the metrics that evaluations have had, without "eval_loss".
  const std::set<std::string>& evaluation_metrics() const { return names_; }
  // How often the job went back to an earlier step.
  int resumes() const { return resumes_; }

 private:
  void AddStep(const v1::Progress& progress, absl::Time time);
  void AddEvaluation(const v1::Evaluated& evaluated, absl::Time time);
  // Halves the number of steps.
  void Thin();
  double Seconds(absl::Time time);

  const std::string metric_;
  const size_t most_steps_;
  std::vector<Sample> steps_;  // every step, also for a metric of evaluations
  std::vector<Sample> evaluations_;
  std::set<std::string> names_;
  absl::Time begin_ = absl::InfinitePast();  // none
  int resumes_ = 0;
};

// Tells when a stream of stored and new events has come as far as a job's row,
// which was read before: the stream of a job that has not ended goes on.
class RowReached {
 public:
  explicit RowReached(const v1::Job& job) : job_(job) {}

  // Takes the next event; returns whether the row's progress and its latest
  // evaluation were among the events.
  bool Add(const v1::JobEvent& event);

 private:
  const v1::Job job_;
  bool progress_ = false;
  bool evaluated_ = false;
};

// The exponentially weighted mean of `samples` so far, at each of them: a
// sample counts half once a 50th of all steps has passed. Values that are not
// finite neither count nor have a mean.
std::vector<Sample> Smoothed(const std::vector<Sample>& samples);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PLOT_HISTORY_H_
