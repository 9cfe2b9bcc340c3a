// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_STUDY_PROGRESS_H_
#define MPSD_CORE_STUDY_STUDY_PROGRESS_H_

#include <cstdint>

#include "core/report/report.h"
#include "core/train/observer.h"

namespace mpsd::study {

// Shows a study, which may be many short runs, as one: step 12 of 60.
class StudyProgress {
 public:
  // `observer` must outlive this object. `total_steps`: of the whole study, as
  // far as known.
  StudyProgress(train::Observer& observer, int64_t total_steps)
      : observer_(observer), total_steps_(total_steps) {}

  // Reports one more step; its number and total are replaced by the study's.
  void Add(report::Progress step);
  // Counts steps made by an earlier attempt.
  void Skip(int64_t steps) { done_ += steps; }
  void set_total_steps(int64_t steps) { total_steps_ = steps; }

  int64_t done() const { return done_; }
  train::Observer& observer() const { return observer_; }

 private:
  train::Observer& observer_;
  int64_t total_steps_;
  int64_t done_ = 0;
};

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_STUDY_PROGRESS_H_
