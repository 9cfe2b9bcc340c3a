// SPDX-License-Identifier: Apache-2.0
#include "server/housekeeping.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/jobs/ballast.h"
#include "server/jobs/job_sweep.h"

namespace mpsd {
namespace {

// How long the folder of a submission that was cut off stays: the folder is
// small, and a database that is put back after a repair may know the job.
constexpr absl::Duration kSubmissionGrace = absl::Hours(1);

}  // namespace

void Housekeeping::Start(jobs::JobStore& store) {
  absl::StatusOr<jobs::Leftovers> found =
      jobs::FindLeftovers(options_.jobs_dir, store, kSubmissionGrace);
  if (!found.ok()) {
    options_.log(absl::StrCat("looking for leftovers of an earlier mpsd: ",
                              found.status().message()));
    found = jobs::Leftovers();
  }
  garbage_ = std::move(found->garbage);
  if (!garbage_.empty()) {
    options_.log(absl::StrCat("removing ", garbage_.size(),
                              " leftovers of an earlier mpsd in ",
                              options_.jobs_dir.string()));
  }
  for (const std::string& id : found->unknown) {
    options_.log(absl::StrCat((options_.jobs_dir / id).string(),
                              " holds results of a job that the database does "
                              "not know: it stays"));
  }
  ticker_.Start([this] { return Tidy(); });
}

absl::Time Housekeeping::Tidy() {
  jobs::RemoveLeftovers(std::exchange(garbage_, {}));
  jobs::KeepBallast(jobs::BallastPath(options_.jobs_dir));
  absl::StatusOr<int64_t> freed =
      blobs_.Collect(options_.jobs_dir, options_.blob_grace);
  if (!freed.ok()) {
    options_.log(absl::StrCat("collecting blobs: ", freed.status().message()));
  } else if (*freed > 0) {
    options_.log(
        absl::StrCat("removed uploads that no job uses: ", *freed, " bytes"));
  }
  return absl::Now() + std::clamp(options_.blob_grace / 4,
                                  absl::Milliseconds(250), absl::Hours(1));
}

}  // namespace mpsd
