// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_KEEP_RULES_H_
#define MPSD_SERVER_JOBS_KEEP_RULES_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace mpsd::jobs {

// What stays of a user's jobs that have ended. An absent figure removes
// nothing.
struct KeepRules {
  std::optional<absl::Duration> age = {};  // of a job, since its end
  std::optional<int64_t> jobs = {};        // the newest
  std::optional<int64_t> bytes = {};       // of the folders of all of them
  std::optional<absl::Duration> checkpoint_age = {};  // since the job's end

  bool operator==(const KeepRules&) const = default;
  bool KeepAll() const { return *this == KeepRules(); }
};

// The names of the rules: options, and keys of the table [user.NAME].
inline constexpr const char* kKeepKeys[] = {
    "keep-days", "keep-jobs", "keep-bytes", "keep-checkpoints-days"};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_KEEP_RULES_H_
