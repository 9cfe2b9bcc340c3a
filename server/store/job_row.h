// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_JOB_ROW_H_
#define MPSD_SERVER_STORE_JOB_ROW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/job.h"
#include "server/jobs/job_store.h"
#include "server/store/connection.h"

namespace mpsd::store {

// The encoding of events in table events: a kind, and a JSON object with the
// fields of server/jobs/job.h. An absent member reads as its default, so that
// old rows stay readable. A non-finite double is stored as null and reads as
// NaN.
using EventBody = decltype(jobs::Event::body);

// The numbers: 1 StateChanged, 2 Progress, 3 Evaluated, 4 Checkpoint, 5 Note.
int KindOf(const EventBody& body);
inline constexpr int kProgressKind = 2;

std::string EncodeBody(const EventBody& body);
// DataLoss for a body that EncodeBody did not write.
absl::StatusOr<EventBody> DecodeBody(int kind, const std::string& text);

// The JSON of a column of table jobs: the fields of a jobs::Progress or
// jobs::Evaluated; jobs::Metrics as an object whose members keep their order; a
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
void BindFixed(Query& query, const jobs::Job& job);
void BindChanging(Query& query, const jobs::Job& job);

// The columns to select for ReadWhatCanBe and ReadJobRow.
std::string WholeColumns();

struct JobRow {
  int64_t number = 0;
  jobs::Job job;  // labels are left empty
  // DataLoss for the first column whose value this mpsd does not know. That
  // column's member keeps its default; every other member is set.
  absl::Status fault;
};
// Reads a row of WholeColumns().
JobRow ReadWhatCanBe(Query& query);
// Like ReadWhatCanBe, but returns the fault as an error.
absl::StatusOr<JobRow> ReadJobRow(Query& query);

// Adds the job's labels and tags. Throws as Connection does; likewise below.
void ReadLabels(Connection& c, JobRow& row)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// The tags of a job, deleted or not; sorted.
std::vector<std::string> ReadTags(Connection& c, const std::string& job_id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// Reads every row of "SELECT id, name, state, owner".
std::vector<jobs::FoundJob> ReadFoundJobs(Query& query);

// The columns to select instead of WholeColumns() for a summary
// (jobs::ListFilter::summaries): SQLite does not read texts from the disk
// beyond their bounds. Shorten then cuts them to the byte.
std::string SummaryColumns();
void Shorten(jobs::Job& job);

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_JOB_ROW_H_
