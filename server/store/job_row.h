// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_JOB_ROW_H_
#define MPSD_SERVER_STORE_JOB_ROW_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/jobs/job.h"
#include "server/store/connection.h"

namespace mpsd::store {

// The columns of table jobs. The key and the columns that Submit fixes (id,
// create_time, idempotency_key, request_hash, kind) are apart from the columns
// that change.
inline constexpr char kFixedColumns[] =
    "id, create_time_us, idempotency_key, request_hash, kind";
inline constexpr char kChangingColumns[] =
    "name, state, cancel_requested, owner, priority, start_time_us, "
    "end_time_us, not_before_us, attempt, failures, message, exit_reason, "
    "progress, eval_loss_before, eval_loss_after, train_loss, output_path, "
    "spec_json, output_kind, metrics, best_evaluation, confusion_matrix, "
    "warnings, interruptions, behind, boot_id, durable_step, advanced, "
    "memory_bytes, checkpoint_bytes";
inline constexpr int kFixedCount = 5;
inline constexpr int kChangingCount = 30;

// Binds the columns in the order of the lists above.
void BindFixed(Query& query, const jobs::Job& job);
void BindChanging(Query& query, const jobs::Job& job);

// "number, <kFixedColumns>, <kChangingColumns>"
const std::string& WholeColumns();

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

// Adds the job's labels. Throws as Connection does.
void ReadLabels(Connection& c, JobRow& row)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

// The columns to select instead of WholeColumns() for a summary
// (jobs::ListFilter::summaries): SQLite does not read texts from the disk
// beyond their bounds. Shorten then cuts them to the byte.
const std::string& SummaryColumns();
void Shorten(jobs::Job& job);

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_JOB_ROW_H_
