// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_LOGBOOK_STORE_H_
#define MPSD_SERVER_STORE_LOGBOOK_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/logbook/record_store.h"
#include "server/store/database.h"

namespace mpsd::store {

// logbook::RecordStore over SQLite, where a trigger adds the ends.
class LogbookStore final : public logbook::RecordStore {
 public:
  // The most records that one Prune removes.
  static constexpr int64_t kPruned = 1000;

  // Among 200,000 records a search takes a fraction of a second; one for a long
  // text that is nearly in each of them would take minutes, for which nobody
  // else could search. After this time it is DeadlineExceeded.
  static constexpr absl::Duration kSearch = absl::Seconds(2);

  // `database` must outlive the store.
  explicit LogbookStore(Database& database, absl::Duration search = kSearch)
      : database_(database), search_(search) {}

  absl::StatusOr<std::vector<logbook::UnwrittenRecord>> Unwritten(
      int64_t number, int limit) override;
  absl::StatusOr<std::optional<logbook::UnwrittenRecord>> UnwrittenOf(
      const std::string& job_id) override;
  absl::Status Put(const logbook::NewRecord& record,
                   int64_t unwritten) override;
  absl::Status Forget(int64_t unwritten) override;
  absl::Status PutAttempts(
      const std::vector<logbook::AttemptRow>& rows) override;
  absl::StatusOr<std::vector<std::string>> Attempts(
      const std::string& job_id) override;
  absl::StatusOr<std::vector<logbook::StoredRecord>> Search(
      const logbook::RecordSearch& search) override;
  absl::StatusOr<logbook::StoredRecord> Get(const std::string& id) override;
  absl::StatusOr<std::vector<std::string>> FindByIdPart(
      const std::string& part, const std::optional<std::string>& owner,
      int limit) override;
  absl::Status AddNote(const std::string& id,
                       const logbook::Note& note) override;
  absl::Status Tag(const std::string& id, const std::vector<std::string>& add,
                   const std::vector<std::string>& remove) override;
  absl::StatusOr<int64_t> Prune(int64_t most) override;

 private:
  Database& database_;
  const absl::Duration search_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_LOGBOOK_STORE_H_
