// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_CONTROLLER_H_
#define MPSD_SERVER_SWEEPS_CONTROLLER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/jobs/job_store.h"
#include "server/jobs/sweep_children.h"
#include "server/sweeps/ranking.h"
#include "server/sweeps/sweep_store.h"

namespace mpsd::sweeps {

// Thins out the sweeps that have rungs: once every child that takes part has
// come to the step of the rung, or has ended, decides who goes on, stores that,
// and then carries it out. What is stored decides: whatever kills mpsd between
// two lines, the next Tick goes on from there, and a Tick too many changes
// nothing. Has no thread: its owner calls Tick, from one thread, at the time
// that Tick returned and whenever a child came to rest or ended.
class Controller {
 public:
  // The dependencies must outlive the controller. `log` gets one line for each
  // decision, and for what fails.
  Controller(SweepStore& store, jobs::JobStore& jobs,
             jobs::SweepChildren& children, const base::Clock& clock,
             std::function<void(const std::string&)> log)
      : store_(store),
        jobs_(jobs),
        children_(children),
        clock_(clock),
        log_(std::move(log)) {}

  // Returns the time until which no call is needed.
  absl::Time Tick();

 private:
  absl::Status Tend(const std::string& id);
  // Has the jobs do what is decided. An error where one of them cannot yet.
  absl::Status CarryOut(const Sweep& sweep, const JobsById& jobs);
  void Log(const std::string& line);

  SweepStore& store_;
  jobs::JobStore& jobs_;
  jobs::SweepChildren& children_;
  const base::Clock& clock_;
  const std::function<void(const std::string&)> log_;
  std::string logged_;  // the last line, so that it is not repeated
};

// Decides the next rung of the sweep, if every child that takes part is there:
// changes `rung` of the sweep, and `rung`, `out`, `metric` and `drop` of its
// children. False, and nothing changes, where one is still on its way, or no
// rung is left.
bool DecideRung(const JobsById& jobs, Sweep& sweep);

// The jobs of the sweep that exist. The store's error.
absl::StatusOr<JobsById> ReadJobs(jobs::JobStore& jobs, const std::string& id);

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_CONTROLLER_H_
