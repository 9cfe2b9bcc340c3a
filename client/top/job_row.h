// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_JOB_ROW_H_
#define MPSD_CLIENT_TOP_JOB_ROW_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/time/time.h"
#include "client/top/frame.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client::top {

// What a list of jobs shows of one, so small that tens of thousands fit: a job
// of the API may carry 8 KiB of message.
struct JobRow {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string id;
  std::string name;
  std::string owner;
  // The beginning of why the job waits, pauses or failed; at most 160 bytes.
  std::string note;
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  bool cancelling = false;
  bool held = false;    // by JobRow::note
  bool paused = false;  // by JobRow::note
  int priority = 0;
  int attempt = 0;
  int64_t queue_position = -1;  // jobs ahead; -1: not in the queue
  int64_t step = 0;
  int64_t total_steps = 0;      // 0: no step yet
  double loss = kUnknown;       // nats
  double eval_loss = kUnknown;  // nats
  double step_seconds = kUnknown;
  double tokens_per_second = kUnknown;
  double eta_seconds = kUnknown;
  absl::Time created = absl::InfinitePast();

  bool is_final() const;
  // The share of the steps that are done, 0 to 1; 0 before the first.
  double share() const;
};

JobRow RowOf(const v1::Job& job);

// Takes a step that is newer than the row's.
void AddProgress(const v1::Progress& progress, JobRow* row);

// "23ms", "1.8s", "13m05s".
std::string StepTime(double seconds);

// "RUNNING", "PAUSED", "QUEUED 12" (the place, from 1), "HELD", "CANCELLING".
std::string StateText(const JobRow& row);
Look StateLook(const JobRow& row);

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_JOB_ROW_H_
