// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_PLAN_RUN_H_
#define MPSD_SERVER_PLANNER_PLAN_RUN_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_manager.h"

namespace mpsd::planner {

// A plan in progress: a thread that makes it, and its reports to the watcher.
// Thread-safe, except Start and Join, which the owner calls.
//
//   made → Start → reports … → ended → Join → destroyed
class PlanRun {
 public:
  using Make = std::function<absl::StatusOr<jobs::FinishedPlan>(PlanRun& run)>;

  PlanRun(std::string id, std::string user, std::function<void()> wake)
      : id_(std::move(id)), user_(std::move(user)), wake_(std::move(wake)) {}
  ~PlanRun() { Join(); }

  const std::string& id() const { return id_; }
  const std::string& user() const { return user_; }

  // Runs `make` on the run's own thread. Its result, or its error, is the last
  // news.
  void Start(Make make);
  // Human-readable. A slow watcher misses stages, but never the plan.
  void TellStage(std::string stage);

  // The next news; nullopt: nothing yet; the error that ended the run, after
  // the news before it.
  absl::StatusOr<std::optional<jobs::PlanNews>> Next();

  // No client waits for the plan any more: the thread ends soon.
  void GiveUp() { given_up_ = true; }
  bool given_up() const { return given_up_; }
  // Cancelled once no client waits.
  absl::Status Wanted() const;

  // Whether the thread has nothing left to do.
  bool ended() const { return ended_; }
  void Join();

 private:
  void Wake();

  const std::string id_, user_;
  std::atomic<bool> given_up_ = false;
  std::atomic<bool> ended_ = false;
  absl::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);  // empty: unwatched
  std::deque<jobs::PlanNews> news_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// How long a job of `owner` would wait if it were queued now. Estimates the
// wait only if every job ahead has an ETA that is readable: jobs whose owners
// `may_read` (empty: everyone's) excludes have none.
jobs::PlanQueue LookAhead(
    jobs::JobReader& reader, const std::string& owner, int32_t priority,
    const std::function<bool(const std::string& owner)>& may_read);

// The part of a job.json that decides the time per token and the batching of
// rows, without the model, the data and the device: equal texts for jobs of one
// shape.
std::string SpeedShape(const spec::TrainSpec& spec);

// OK if a probe of `probed` measured the steps of `planned`: they differ only
// in what changes no step's memory and time (rates, names, lengths of the run,
// evaluation, checkpoints). InvalidArgument names a field.
absl::Status CheckSameSteps(const jobs::SubmitRequest& probed,
                            const jobs::SubmitRequest& planned);

}  // namespace mpsd::planner

#endif  // MPSD_SERVER_PLANNER_PLAN_RUN_H_
