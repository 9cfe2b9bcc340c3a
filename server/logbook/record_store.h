// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOGBOOK_RECORD_STORE_H_
#define MPSD_SERVER_LOGBOOK_RECORD_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/logbook/record_fields.h"
#include "server/logbook/record_query.h"

namespace mpsd::logbook {

struct Note {
  absl::Time time;
  std::string author, text;
  bool rejected = false;
};

// A record to be written.
struct NewRecord {
  std::string id, owner;
  absl::Time end_time;
  std::vector<FieldValue> values;  // of kRecordFields, in their order
  std::map<std::string, double> metrics;
  std::map<std::string, std::string> labels;
  std::string texts;                        // what a search for a text finds
  std::string body;                         // a v1::Record, serialized
  std::optional<Note> note = std::nullopt;  // to be added with it
};

struct StoredRecord {
  int64_t number = 0;
  std::string id, owner, body;
  std::vector<std::string> tags;  // sorted
  std::vector<Note> notes;        // oldest first
};

// An end whose record is not written yet.
struct UnwrittenRecord {
  int64_t number = 0;  // grows from end to end, and is never used twice
  std::string job_id;
};

// What was seen of an attempt: a v1::RunAttempt, serialized.
struct AttemptRow {
  std::string job_id;
  absl::Time start;
  std::string body;
};

struct RecordSearch {
  RecordQuery query;
  std::optional<std::string> owner;  // only this owner's
  int64_t before = INT64_MAX;        // number, exclusive
  int limit = 50;
  size_t bytes = SIZE_MAX;  // of bodies and notes; the last record may exceed
};

// The logbook's rows. Every call that changes something is one transaction,
// which a power cut does not undo once the call returned OK, but for
// PutAttempts, which it may. Thread-safe. Implemented by server/store.
class RecordStore {
 public:
  virtual ~RecordStore() = default;

  // Ends after `number`, oldest first, at most `limit`.
  virtual absl::StatusOr<std::vector<UnwrittenRecord>> Unwritten(int64_t number,
                                                                 int limit) = 0;
  virtual absl::StatusOr<std::optional<UnwrittenRecord>> UnwrittenOf(
      const std::string& job_id) = 0;
  // Writes a record, in the place of an earlier one of the same id, whose tags
  // and notes stay, and forgets the end `unwritten` (0: none).
  virtual absl::Status Put(const NewRecord& record, int64_t unwritten) = 0;
  virtual absl::Status Forget(int64_t unwritten) = 0;

  virtual absl::Status PutAttempts(const std::vector<AttemptRow>& rows) = 0;
  // The bodies, oldest first.
  virtual absl::StatusOr<std::vector<std::string>> Attempts(
      const std::string& job_id) = 0;

  // The latest first.
  virtual absl::StatusOr<std::vector<StoredRecord>> Search(
      const RecordSearch& search) = 0;
  // NotFound where there is none; likewise below.
  virtual absl::StatusOr<StoredRecord> Get(const std::string& id) = 0;
  // Ids that begin or end with `part`, of `owner` alone where that is set; at
  // most `limit`, sorted.
  virtual absl::StatusOr<std::vector<std::string>> FindByIdPart(
      const std::string& part, const std::optional<std::string>& owner,
      int limit) = 0;

  // ResourceExhausted where the record has limits::kRecordNotes notes.
  virtual absl::Status AddNote(const std::string& id, const Note& note) = 0;
  // Removes first. ResourceExhausted, and nothing is changed, where the record
  // would have more than limits::kRecordTags tags.
  virtual absl::Status Tag(const std::string& id,
                           const std::vector<std::string>& add,
                           const std::vector<std::string>& remove) = 0;

  // While there are more than `most` records, removes the oldest ones of the
  // owner who has the most, those without a tag or a note first: nobody pushes
  // out another's records by many jobs. Removes a bounded number in one call,
  // and returns how many.
  virtual absl::StatusOr<int64_t> Prune(int64_t most) = 0;
};

}  // namespace mpsd::logbook

#endif  // MPSD_SERVER_LOGBOOK_RECORD_STORE_H_
