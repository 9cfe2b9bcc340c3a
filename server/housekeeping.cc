// SPDX-License-Identifier: Apache-2.0
#include "server/housekeeping.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "server/jobs/job_deletion.h"

namespace mpsd {
namespace {

// How long the folder of an interrupted submission is kept: it is small, and a
// database restored after a repair may know the job.
constexpr absl::Duration kSubmissionGrace = absl::Hours(1);

retention::Collector::Options CollectorOptions(
    const Housekeeping::Options& options) {
  retention::Collector::Options made;
  made.fresh = options.fresh;
  made.log = options.log;
  made.rules = [limits = options.limits](const std::string& owner) {
    return limits == nullptr ? jobs::KeepRules() : limits->Of(owner).keep;
  };
  made.keeps_all = [limits = options.limits] {
    return limits == nullptr || limits->KeepsAll();
  };
  if (options.metrics != nullptr) {
    made.count = [metrics = options.metrics](jobs::Collected kind,
                                             int64_t count, int64_t bytes) {
      metrics->Collected(kind, count, bytes);
    };
  }
  return made;
}

}  // namespace

Housekeeping::Housekeeping(Options options,
                           retention::Collector::Dependencies dependencies)
    : options_(std::move(options)),
      collector_(CollectorOptions(options_), dependencies) {
  collector_.SetBudget(options_.budget_bytes);
  if (options_.metrics != nullptr) {
    options_.metrics->SetBudget(options_.budget_bytes);
  }
}

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

void Housekeeping::SweepModels() {
  const absl::StatusOr<int> swept = options_.sweep_models();
  if (!swept.ok()) {
    options_.log(absl::StrCat("removing models that were replaced: ",
                              swept.status().message()));
  } else if (*swept > 0) {
    options_.log(
        absl::StrCat("removed revisions of models that no job has: ", *swept));
  }
}

absl::Time Housekeeping::Tidy() {
  jobs::RemoveLeftovers(std::exchange(garbage_, {}));
  jobs::KeepBallast(jobs::BallastPath(options_.jobs_dir));
  const absl::Duration between = std::clamp(
      options_.blob_grace / 4, absl::Milliseconds(250), absl::Hours(1));
  const absl::Duration now = base::Clock::Real().Monotonic();
  if (now >= next_blobs_) {
    // Before the blobs, which their links keep.
    SweepModels();
    collector_.TendBlobs();
    next_blobs_ = now + between;
  }
  collector_.Tend([this] {
    return stopping_ ? absl::CancelledError("mpsd stops") : absl::OkStatus();
  });
  return absl::Now() + std::min(between, options_.interval);
}

}  // namespace mpsd
