// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/database.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

namespace mpsd::jobs {

// The encoding of events in table events: a kind, and a JSON object with the
// fields of server/store/job.h. An absent member reads as its default, so that
// old rows stay readable. A non-finite double is stored as null and reads as
// NaN.
using EventBody = decltype(Event::body);

// The numbers: 1 StateChanged, 2 Progress, 3 Evaluated, 4 Checkpoint, 5 Note,
// 6 Sampled.
int KindOf(const EventBody& body);
inline constexpr int kProgressKind = 2;

std::string EncodeBody(const EventBody& body);
// DataLoss for a body that EncodeBody did not write.
absl::StatusOr<EventBody> DecodeBody(int kind, const std::string& text);

// The JSON of a column of table jobs: the fields of a Progress or
// Evaluated; Metrics as an object whose members keep their order; a
// list of strings. No other type is instantiated.
template <typename Value>
std::string EncodeColumn(const Value& value);
template <typename Value>
absl::StatusOr<Value> DecodeColumn(const std::string& text);

// "INSERT INTO jobs …" and "UPDATE jobs … WHERE number = ?". BindFixed and then
// BindChanging bind the parameters of the first; BindChanging and then the
// job's number those of the second. Submit fixes the fixed columns: id,
// create_time, owner_key, request_hash, kind and model.
std::string InsertJobSql();
std::string UpdateJobSql();
void BindFixed(store::Query& query, const Job& job);
void BindChanging(store::Query& query, const Job& job);

// The columns to select for ReadWhatCanBe and ReadJobRow.
std::string WholeColumns();

struct JobRow {
  int64_t number = 0;
  Job job;  // labels are left empty
  // DataLoss for the first column whose value this mpsd does not know. That
  // column's member keeps its default; every other member is set.
  absl::Status fault;
};
// Reads a row of WholeColumns().
JobRow ReadWhatCanBe(store::Query& query);
// Like ReadWhatCanBe, but returns the fault as an error.
absl::StatusOr<JobRow> ReadJobRow(store::Query& query);

// Adds the job's labels and tags. Throws as Connection does; likewise below.
void ReadLabels(store::Connection& c, JobRow& row)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// FailedPrecondition, naming it, if a job that has not ended uses job `id`.
absl::Status CheckUnused(store::Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// The tags of a job, deleted or not; sorted.
std::vector<std::string> ReadTags(store::Connection& c,
                                  const std::string& job_id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// Reads every row of "SELECT id, name, state, owner".
std::vector<FoundJob> ReadFoundJobs(store::Query& query);

// The columns to select instead of WholeColumns() for a summary
// (ListFilter::summaries): SQLite does not read texts from the disk
// beyond their bounds. Shorten then cuts them to the byte.
std::string SummaryColumns();
void Shorten(Job& job);

// JobStore::List and CountListed. They read the narrow table job_list, at
// most once; List reads from the wide table jobs only the rows that it returns.
// For whole jobs an unreadable row is DataLoss; summaries show the readable
// columns. Each throws as Connection does.
absl::StatusOr<std::vector<Job>> ListJobs(store::Connection& connection,
                                          const ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());
int64_t CountJobs(store::Connection& connection, const ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());

absl::Status NoSuchJob(const std::string& id);  // NotFound, "no job ID"

// The LIKE pattern for an arbitrary text, with '\\' as its escape.
std::string LikePattern(const std::string& text);

// Updates the text index for rows of jobs that were inserted, changed or
// deleted since the last call. Must be part of the transaction of each such
// change, after the job's labels. Costs one look at an empty table if no text
// has changed.
void IndexChangedTexts(store::Connection& connection)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());

}  // namespace mpsd::jobs
