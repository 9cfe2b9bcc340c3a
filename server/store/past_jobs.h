// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_PAST_JOBS_H_
#define MPSD_SERVER_STORE_PAST_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_store.h"
#include "server/store/database.h"

namespace mpsd::store {

// jobs::PastJobs over SQLite.
class PastJobs final : public jobs::PastJobs {
 public:
  struct Options {
    // A record takes about 5 kB of the database, so these take 1 GB. Beyond it,
    // Put removes the oldest of the owner who has the most, those without a tag
    // or a note first: no owner pushes out another's records with many jobs.
    int64_t most = 200'000;
    absl::Duration search = absl::Seconds(2);
  };

  // `database` must outlive the store.
  explicit PastJobs(Database& database) : PastJobs(database, Options()) {}
  PastJobs(Database& database, const Options& options)
      : database_(database), options_(options) {}

  absl::Status PutAttempts(const std::vector<jobs::AttemptRow>& rows,
                           absl::Duration patience) override;
  absl::StatusOr<std::vector<std::string>> Attempts(
      const std::string& job_id) override;
  absl::Status Put(const jobs::Job& job, const std::string& texts,
                   const std::string& body) override;
  absl::StatusOr<std::string> BodyOf(const std::string& id) override;
  absl::StatusOr<std::vector<jobs::PastJob>> List(
      const jobs::ListFilter& filter) override;
  absl::StatusOr<int64_t> Count(const jobs::ListFilter& filter) override;
  absl::StatusOr<std::vector<jobs::FoundJob>> FindByIdPart(
      const std::string& part, int limit) override;
  absl::StatusOr<std::vector<jobs::JobNote>> NotesOf(
      const std::string& id) override;
  absl::StatusOr<std::vector<std::string>> TagsOf(
      const std::string& id) override;
  absl::Status AddNote(const std::string& id,
                       const jobs::JobNote& note) override;
  absl::Status Tag(const std::string& id, const std::vector<std::string>& add,
                   const std::vector<std::string>& remove) override;

 private:
  Database& database_;
  const Options options_;
};

// jobs::EndedJobs over SQLite, where a trigger adds the ends.
class EndedJobStore final : public jobs::EndedJobs {
 public:
  // `database` must outlive the store.
  explicit EndedJobStore(Database& database) : database_(database) {}

  absl::StatusOr<std::vector<jobs::EndedJob>> After(int64_t number,
                                                    int limit) override;
  absl::Status Forget(int64_t number) override;

 private:
  Database& database_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_PAST_JOBS_H_
