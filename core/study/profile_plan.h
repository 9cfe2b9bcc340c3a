// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_PROFILE_PLAN_H_
#define MPSD_CORE_STUDY_PROFILE_PLAN_H_

#include <cstdint>
#include <optional>

#include "core/study/profile_facts.h"

namespace mpsd::study {

// Which steps of a profile are what. After the warm-up come sessions: plain
// steps, then steps under the profiler. The plain ones tell what the profiler
// costs, and use up the data that the loader made ahead while the session
// before them was worked up.
class ProfilePlan {
 public:
  static constexpr int64_t kPlainSteps = 2;    // of a session
  static constexpr int64_t kSessionSteps = 5;  // under the profiler, at most
  // Events that a session may have: torch's profiler keeps all of them in
  // memory, some 1 KiB each.
  static constexpr int64_t kSessionEvents = 500'000;

  ProfilePlan(int64_t warm_up, int64_t profiled)
      : warm_up_(warm_up), left_(profiled) {}

  // The next step; absent: there are no more.
  std::optional<StepKind> Next() const;
  // The next step has been taken.
  void Taken();
  // Whether the last step under the profiler is the last of its session.
  bool EndsSession() const { return next_ == StepKind::kPlain || left_ == 0; }
  // A session of `steps` had so many events: later ones get fewer steps where
  // they would have too many.
  void Note(int64_t events, int64_t steps);
  // Steps of all kinds, as far as they are known.
  int64_t total() const;

 private:
  int64_t warm_up_;
  int64_t left_;  // under the profiler
  int64_t session_ = kSessionSteps;
  int64_t taken_ = 0;
  int64_t in_part_ = 0;  // steps of this kind, one after the other
  StepKind next_ = StepKind::kWarmUp;
};

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_PROFILE_PLAN_H_
