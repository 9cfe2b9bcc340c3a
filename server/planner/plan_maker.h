// SPDX-License-Identifier: Apache-2.0
// Plans of jobs: the process that makes one, its output, the run with its
// watcher, and the maker of all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/limits.h"
#include "core/host/environment.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/submission.h"
#include "server/planner/plan_facts.h"
#include "server/store/blob_store.h"
#include "server/store/job.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::planner {

struct PlanRequest {
  // As for Scheduler::Submit, but a job which needs more memory than there is
  // gets its plan. Its functions are called on any thread, as long as the plan
  // is made.
  jobs::SubmitRequest submission;
  std::map<std::string, double> thresholds;
  // A probe that has SUCCEEDED and that the user may read, and its result
  // (v1::ProbeResult as JSON); "": none.
  std::string probe_id, probe_json;
  // Whether the user may know how fast jobs of `owner` ran, and how much of
  // them is left. Called likewise. Empty: any owner's.
  std::function<bool(const std::string& owner)> may_read;
};

struct FinishedPlan {
  std::string json;  // v1::Plan, without its queue
  PlanQueue queue;
  // Of a merge alone: the folder with what it exported in model/, which is
  // removed with its last owner.
  std::shared_ptr<supervisor::TemporaryFolder> merged = nullptr;
};
struct PlanNews {
  std::string stage;                 // human-readable: "tokenizing"
  std::optional<FinishedPlan> plan;  // with the last news
};

// Follows the making of a plan. Destroying the watch abandons the plan at once,
// without waiting for it. One thread at a time.
class PlanWatch {
 public:
  virtual ~PlanWatch() = default;
  // The next news; nullopt: nothing yet. Nothing comes after a plan. Errors are
  // those of Scheduler::Submit, and
  //   DEADLINE_EXCEEDED  the plan took too long.
  //   INTERNAL           the planning process failed.
  virtual absl::StatusOr<std::optional<PlanNews>> Next() = 0;
};

// Estimates a job without queueing it. Thread-safe.
class Planner {
 public:
  virtual ~Planner() = default;
  // Begins a plan; does not block. `wake` is called (any thread, must not
  // block) whenever Next may have news, and at times when it has none.
  // UNAVAILABLE, with a message, while the maximum number of plans is being
  // made.
  virtual absl::StatusOr<std::unique_ptr<PlanWatch>> Plan(
      PlanRequest request, std::function<void()> wake) = 0;

  // Begins to export what `job` made in a `format` of DownloadRequest, on the
  // CPU, as if that were a plan of `user`: "merged" merges the adapter into its
  // model.
  //   FAILED_PRECONDITION  the result is no adapter, its model is gone, or they
  //                        do not fit, or not into the format.
  //   RESOURCE_EXHAUSTED   the disk has no room for the model.
  virtual absl::StatusOr<std::unique_ptr<PlanWatch>> Merge(
      const jobs::Job& job, const std::string& format, const std::string& user,
      std::function<void()> wake) = 0;
};

inline constexpr size_t kLineBytes = limits::kStudyResultBytes;
inline constexpr size_t kOutputBytes = 4 * kLineBytes;  // of one process

// The output of `mpsd-worker --plan`, a JSON object per line: {"stage":
// "tokenizing"} any number of times, and at last {"plan": {…}}, or {"error":
// {"code": "INVALID_ARGUMENT", "message": "…"}}. Trusts none of it.
class PlanLines {
 public:
  // `on_stage` gets each stage, printable and bounded.
  explicit PlanLines(std::function<void(std::string)> on_stage)
      : on_stage_(std::move(on_stage)) {}

  // The next bytes. Internal for an invalid line, for an endless line or
  // output, and for output after the last line; further calls return the same.
  absl::Status Take(std::string_view bytes);

  // Whether the last line has arrived.
  bool done() const { return done_; }
  // The plan as JSON, or the error that the process reported; Internal if the
  // last line never came.
  absl::StatusOr<std::string> Result() const;

 private:
  absl::Status TakeLine(std::string_view line);

  const std::function<void(std::string)> on_stage_;
  std::string line_;  // as far as it has arrived
  size_t bytes_ = 0;
  bool done_ = false;
  absl::Status broken_;
  absl::StatusOr<std::string> result_;
};

// A plan in progress: a thread that makes it, and its reports to the watcher.
// Thread-safe, except Start and Join, which the owner calls.
//
//   made → Start → reports … → ended → Join → destroyed
class PlanRun {
 public:
  using Make = std::function<absl::StatusOr<FinishedPlan>(PlanRun& run)>;

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
  absl::StatusOr<std::optional<PlanNews>> Next();

  // No client waits for the plan any more: the thread ends soon. Removes a
  // merged model that no client received.
  void GiveUp();
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
  std::deque<PlanNews> news_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// Makes plans: checks a request as Submit does, puts its files into a temporary
// folder while the plan is made, and has `mpsd-worker --plan` read them. Each
// plan has a thread and a process; at most limits::kPlans are made at a time,
// one per user. Never touches the queue or the device. Thread-safe.
class PlanMaker final : public Planner {
 public:
  struct Options {
    std::string worker_path;
    // The process' whole environment, except TMPDIR.
    host::Environment environment;
    // In which each plan gets its folder, and each merge. For the maker alone,
    // which empties them when constructed.
    std::filesystem::path plans_dir, merges_dir;
    // As of supervisor::ProcessLauncher.
    std::vector<std::string> read_roots, closed_roots;
    std::string chip;  // the machine's; "": unknown
    int gpu_cores = 0, cpu_cores = 0;
    int64_t machine_bytes = 0;  // of memory
    // Free bytes of the state folder's disk that jobs may not use.
    int64_t min_free_bytes = 0;
    // After this time, while the machine is awake, a plan's process is killed.
    absl::Duration limit = absl::Minutes(10);
  };
  struct Dependencies {
    jobs::JobReader& reader;
    jobs::JobFiles& files;
    jobs::Blobs& blobs;
    const base::Clock& clock;
  };

  // The dependencies must outlive the maker.
  PlanMaker(Options options, Dependencies dependencies);
  // Kills the processes and removes the folders of the plans in progress.
  ~PlanMaker() override;

  absl::StatusOr<std::unique_ptr<PlanWatch>> Plan(
      PlanRequest request, std::function<void()> wake) override;
  absl::StatusOr<std::unique_ptr<PlanWatch>> Merge(
      const jobs::Job& job, const std::string& format, const std::string& user,
      std::function<void()> wake) override;

  // Has `mpsd-worker --plan` read the data of a queued job as its run will,
  // with one thread, at low priority and for at most Options::limit; the run
  // finds their tokens in the worker's cache. An error says why nothing is
  // known of the data. Blocks; one call at a time. `wanted` is called several
  // times a second.
  absl::StatusOr<jobs::DataCheck> Check(const std::string& id,
                                        const jobs::Wanted& wanted);

  // Removes the folders of plans that are not in progress: those that could not
  // be removed at the plan's end.
  void Sweep();

 private:
  absl::StatusOr<std::unique_ptr<PlanWatch>> Begin(const std::string& user,
                                                   std::function<void()> wake,
                                                   PlanRun::Make make);
  // Unavailable if `user` has a plan in progress, or too many are.
  absl::Status CheckRoom(const std::string& user)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Joins the threads of plans that have ended.
  void Reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Dependencies dependencies_;
  jobs::JobIdGenerator ids_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<PlanRun>> runs_ ABSL_GUARDED_BY(mutex_);
  // By user: the merged model that is being downloaded.
  std::map<std::string, std::weak_ptr<supervisor::TemporaryFolder>> merged_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::planner
