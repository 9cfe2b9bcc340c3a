// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_JOB_RECORDS_H_
#define MPSD_SERVER_RPC_JOB_RECORDS_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/mounts.h"
#include "mpsd/v1/record.pb.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_store.h"
#include "server/rpc/run_watch.h"

namespace mpsd::records {

// Makes the record of a job on request, and keeps it when the job is deleted.
// Thread-safe.
class JobRecords {
 public:
  struct Options {
    absl::Duration interval = absl::Seconds(1);  // between two Tends
    // The machine's file systems.
    std::function<std::vector<host::Mount>()> mounts = host::ListMounts;
    // Gets a line for each fault.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  struct Dependencies {
    jobs::PastJobs& past;
    jobs::JobStore& jobs;
    jobs::JobFiles& files;
    RunWatch& watch;
    const base::Clock& clock;
  };

  // The dependencies must outlive the object.
  JobRecords(Options options, const Dependencies& dependencies)
      : options_(std::move(options)), dependencies_(dependencies) {}

  // Stores the observations of attempts. Returns the time until which no call
  // is needed.
  absl::Time Tend();

  // The record of a job, deleted or not, with its notes and tags. NotFound if
  // there is none.
  absl::StatusOr<v1::JobRecord> Get(const std::string& id);
  // Keeps the record of a job that is about to be deleted, whose row and files
  // still exist. ResourceExhausted on a full disk.
  absl::Status Keep(const std::string& id);

  jobs::PastJobs& past() { return dependencies_.past; }
  const base::Clock& clock() const { return dependencies_.clock; }

 private:
  // `now`: include the attempt in progress. Waits at most `patience` for other
  // writes.
  absl::Status StoreAttempts(bool now, absl::Duration patience)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(storing_);
  // Without notes and tags.
  absl::StatusOr<v1::JobRecord> Make(const jobs::Job& job);

  const Options options_;
  const Dependencies dependencies_;
  absl::Mutex storing_;
  // The attempt whose file systems are known.
  std::string mounted_id_ ABSL_GUARDED_BY(storing_);
  absl::Time mounted_start_ ABSL_GUARDED_BY(storing_);
  std::map<std::string, std::string> mounted_ ABSL_GUARDED_BY(storing_);
  std::string logged_ ABSL_GUARDED_BY(storing_);  // the last fault
};

}  // namespace mpsd::records

#endif  // MPSD_SERVER_RPC_JOB_RECORDS_H_
