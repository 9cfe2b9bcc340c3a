// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_ID_H_
#define MPSD_SERVER_JOBS_JOB_ID_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// Makes ULIDs (github.com/ulid/spec): 48 bits of milliseconds and 80 random
// bits as 26 characters of Crockford's base 32. Each id is greater than the id
// before, also within one millisecond and when the clock steps back.
// Thread-safe.
class JobIdGenerator {
 public:
  using Random = std::function<uint64_t()>;  // returns 64 uniform bits

  JobIdGenerator(const base::Clock& clock, Random random);
  std::string Next();

  // Draws from std::random_device.
  static Random SystemRandom();

 private:
  const base::Clock& clock_;
  absl::Mutex mutex_;
  const Random random_;
  uint64_t millis_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t high_ ABSL_GUARDED_BY(mutex_) = 0;  // 40 random bits
  uint64_t low_ ABSL_GUARDED_BY(mutex_) = 0;   // 40 random bits
};

// Whether `text` is 26 characters of the alphabet, hence safe as a file name.
bool IsJobId(std::string_view text);

// The ids of the jobs that a spec mentions: those whose folders contain its
// paths (".../jobs/ID/..."), and those of "job:ID". A path in the folder of
// another daemon's job counts too: an extra id only keeps a job from removal.
std::set<std::string> JobMentions(std::string_view spec_json);

// The jobs whose folders or ends the job needs.
std::set<std::string> JobsNeededBy(const Job& job);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_ID_H_
