// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RETENTION_H_
#define MPSD_SERVER_JOBS_RETENTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/collector.h"
#include "server/jobs/clock_trust.h"
#include "server/jobs/retention_plan.h"

namespace mpsd::retention {

// Carries out what plan.h decides. Every removal is checked again when it is
// carried out (JobRemover), because jobs are pinned, submitted and retried
// meanwhile, and each is atomic or is completed after a kill; so an interrupted
// collection has removed a part of its plan, and the next one plans for the
// rest.
class Collector final : public jobs::Collector {
 public:
  struct Options {
    RulesOf rules;
    // Whether no rule removes anything, so that nothing need be read.
    std::function<bool()> keeps_all = [] { return false; };
    // Jobs that ended this recently are kept.
    absl::Duration fresh = absl::Hours(1);
    // Gets one line for each collection that removed something, and for what
    // cannot be removed.
    std::function<void(const std::string&)> log = [](const std::string&) {};
    // Counts what was removed, for the metrics.
    std::function<void(jobs::Collected, int64_t count, int64_t bytes)> count =
        [](jobs::Collected, int64_t, int64_t) {};
  };
  // The dependencies must outlive the collector.
  struct Dependencies {
    jobs::KeptJobs& kept;
    jobs::JobRemover& remover;
    jobs::UnusedBlobs& blobs;
    jobs::MeasuredFolders& folders;
    const base::Clock& clock;
  };

  Collector(Options options, Dependencies dependencies)
      : options_(std::move(options)), dependencies_(dependencies) {}

  absl::StatusOr<jobs::CollectionPlan> Plan() override;
  absl::StatusOr<jobs::CollectionResult> Collect(
      const jobs::Wanted& wanted) override;
  jobs::StateBytes Bytes() const override;

  // The budget of the state folder, in bytes; 0: none. Call it before the first
  // plan.
  void SetBudget(int64_t bytes) { budget_ = bytes; }

  // The periodic work of the daemon: stores measurements, and removes jobs and
  // checkpoints by the rules. One thread at a time.
  void Tend(const jobs::Wanted& wanted);
  // Removes unused blobs.
  void TendBlobs();

 private:
  // A plan with the jobs it points to.
  struct Made {
    std::vector<jobs::KeptOwner> owners;
    retention::Plan plan;
    Terms terms;
  };
  // `ages_count` as Terms has it.
  absl::StatusOr<Made> Make(bool ages_count);
  Terms TermsOf(bool ages_count) const;
  absl::StatusOr<jobs::CollectionResult> CollectJobs(
      const Made& made, const jobs::Wanted& wanted);
  absl::StatusOr<int64_t> Remove(const Removal& removal, const std::string& id);
  void CountBlobs(const jobs::UnusedBlobs::Removed& removed);
  void StoreMeasured();
  void LogFailures(const std::vector<std::string>& failed);

  const Options options_;
  const Dependencies dependencies_;
  int64_t budget_ = 0;
  absl::Mutex collecting_;  // one collection at a time
  // Used by the thread that calls Tend.
  ClockTrust clock_trust_;
  std::set<std::string> logged_;  // failures of the last collection
};

}  // namespace mpsd::retention

#endif  // MPSD_SERVER_JOBS_RETENTION_H_
