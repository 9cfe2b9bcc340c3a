// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_row.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "server/store/event_body.h"

namespace mpsd::store {
namespace {

std::optional<int64_t> Micros(const std::optional<absl::Time>& time) {
  if (!time.has_value()) return std::nullopt;
  return absl::ToUnixMicros(*time);
}

std::optional<absl::Time> OptionalTime(Query& query) {
  const std::optional<int64_t> micros = query.OptionalInt();
  if (!micros.has_value()) return std::nullopt;
  return absl::FromUnixMicros(*micros);
}

std::optional<jobs::ExitReason> ExitReasonOf(const std::string& name) {
  for (jobs::ExitReason reason : jobs::kAllExitReasons) {
    if (jobs::Name(reason) == name) return reason;
  }
  return std::nullopt;
}

absl::Status Unknown(const jobs::Job& job, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("the database's row of job ", job.id, " has ", what));
}

// Keeps the row's first fault.
void Note(const absl::Status& status, JobRow& row) {
  if (row.fault.ok()) row.fault = status;
}

// Reads the columns that migrations 0002 and 0003 added.
void ReadOutcome(Query& query, JobRow& row) {
  jobs::Job& job = row.job;
  const int64_t kind = query.Int();
  if (const auto known = report::Numbered(report::kOutputKinds, kind)) {
    job.output_kind = *known;
  } else {
    Note(Unknown(job, absl::StrCat("output kind ", kind)), row);
  }
  absl::StatusOr<jobs::Metrics> metrics = DecodeMetrics(query.Text());
  Note(metrics.status(), row);
  if (metrics.ok()) job.metrics = *std::move(metrics);
  if (const std::optional<std::string> text = query.OptionalText()) {
    absl::StatusOr<jobs::Evaluated> best = DecodeEvaluated(*text);
    Note(best.status(), row);
    if (best.ok()) job.best_evaluation = *std::move(best);
  }
  job.confusion_matrix = query.Text();
  absl::StatusOr<std::vector<std::string>> warnings =
      DecodeWarnings(query.Text());
  Note(warnings.status(), row);
  if (warnings.ok()) job.warnings = *std::move(warnings);
}

// SQL for the first characters of a text column. The result may have one byte
// more than `max_bytes`, so that Shorten sees that the text was longer.
std::string Beginning(const char* column, size_t max_bytes) {
  return absl::StrCat("substr(", column, ", 1, ", max_bytes + 1, ")");
}

// SQL for a column of JSON, which would make no sense when cut.
std::string WholeOr(const char* column, const char* otherwise) {
  constexpr size_t kMost = 64 << 10;
  return absl::StrCat("CASE WHEN length(", column, ") > ", kMost, " THEN ",
                      otherwise, " ELSE ", column, " END");
}

// Reads the columns that migration 0004 added.
void ReadBlame(Query& query, jobs::Job& job) {
  job.interruptions = static_cast<int32_t>(query.Int());
  job.behind = query.Int() != 0;
  job.boot_id = query.Text();
  job.durable_step = query.Int();
  job.advanced = query.Int() != 0;
  job.memory_bytes = query.Int();
  job.checkpoint_bytes = query.Int();
}

}  // namespace

void BindFixed(Query& query, const jobs::Job& job) {
  query.Bind(job.id);
  query.Bind(absl::ToUnixMicros(job.create_time));
  query.Bind(job.idempotency_key.empty()
                 ? std::nullopt
                 : std::optional<std::string>(job.idempotency_key));
  query.Bind(job.request_hash);
  query.Bind(static_cast<int>(job.kind));
}

void BindChanging(Query& query, const jobs::Job& job) {
  query.Bind(job.name);
  query.Bind(static_cast<int>(job.state));
  query.Bind(job.cancel_requested ? 1 : 0);
  query.Bind(job.owner);
  query.Bind(job.priority);
  query.Bind(Micros(job.start_time));
  query.Bind(Micros(job.end_time));
  query.Bind(Micros(job.not_before));
  query.Bind(job.attempt);
  query.Bind(job.failures);
  query.Bind(job.message);
  std::optional<std::string> exit_reason, progress;
  if (job.exit_reason) exit_reason = std::string(jobs::Name(*job.exit_reason));
  if (job.progress) progress = EncodeProgress(*job.progress);
  query.Bind(exit_reason);
  query.Bind(progress);
  query.Bind(job.eval_loss_before);
  query.Bind(job.eval_loss_after);
  query.Bind(job.train_loss);
  query.Bind(job.output_path);
  query.Bind(job.spec_json);
  query.Bind(static_cast<int>(job.output_kind));
  query.Bind(EncodeMetrics(job.metrics));
  std::optional<std::string> best;
  if (job.best_evaluation) best = EncodeBody(*job.best_evaluation);
  query.Bind(best);
  query.Bind(job.confusion_matrix);
  query.Bind(EncodeWarnings(job.warnings));
  query.Bind(job.interruptions);
  query.Bind(job.behind ? 1 : 0);
  query.Bind(job.boot_id);
  query.Bind(job.durable_step);
  query.Bind(job.advanced ? 1 : 0);
  query.Bind(job.memory_bytes);
  query.Bind(job.checkpoint_bytes);
}

const std::string& WholeColumns() {
  static const auto* sql = new std::string(
      absl::StrCat("number, ", kFixedColumns, ", ", kChangingColumns));
  return *sql;
}

JobRow ReadWhatCanBe(Query& query) {
  JobRow row;
  jobs::Job& job = row.job;
  row.number = query.Int();
  job.id = query.Text();
  job.create_time = absl::FromUnixMicros(query.Int());
  job.idempotency_key = query.OptionalText().value_or("");
  job.request_hash = query.Text();
  const int64_t kind_number = query.Int();
  if (const auto kind = report::Numbered(jobs::kJobKinds, kind_number)) {
    job.kind = *kind;
  } else {
    Note(Unknown(job, absl::StrCat("kind ", kind_number)), row);
  }
  job.name = query.Text();
  const int64_t state_number = query.Int();
  if (const auto state = report::Numbered(jobs::kStates, state_number)) {
    job.state = *state;
  } else {
    job.state = jobs::State::kFailed;
    Note(Unknown(job, absl::StrCat("state ", state_number)), row);
  }
  job.cancel_requested = query.Int() != 0;
  job.owner = query.Text();
  job.priority = static_cast<int32_t>(query.Int());
  job.start_time = OptionalTime(query);
  job.end_time = OptionalTime(query);
  job.not_before = OptionalTime(query);
  job.attempt = static_cast<int32_t>(query.Int());
  job.failures = static_cast<int32_t>(query.Int());
  job.message = query.Text();
  if (const std::optional<std::string> name = query.OptionalText()) {
    job.exit_reason = ExitReasonOf(*name);
    if (!job.exit_reason) {
      Note(Unknown(job, "exit reason " + base::Quotable(*name)), row);
    }
  }
  if (const std::optional<std::string> text = query.OptionalText()) {
    absl::StatusOr<jobs::Progress> progress = DecodeProgress(*text);
    Note(progress.status(), row);
    if (progress.ok()) job.progress = *std::move(progress);
  }
  job.eval_loss_before = query.OptionalReal();
  job.eval_loss_after = query.OptionalReal();
  job.train_loss = query.OptionalReal();
  job.output_path = query.Text();
  job.spec_json = query.Text();
  ReadOutcome(query, row);
  ReadBlame(query, job);
  return row;
}

absl::StatusOr<JobRow> ReadJobRow(Query& query) {
  JobRow row = ReadWhatCanBe(query);
  if (!row.fault.ok()) return row.fault;
  return row;
}

void ReadLabels(Connection& c, JobRow& row) {
  Query query(c, "SELECT key, value FROM labels WHERE job = ?", row.number);
  while (query.Next()) {
    std::string key = query.Text();
    row.job.labels[std::move(key)] = query.Text();
  }
}

const std::string& SummaryColumns() {
  static const auto* sql = new std::string([] {
    std::string columns =
        absl::StrCat(", ", kFixedColumns, ", ", kChangingColumns, ",");
    const std::pair<const char*, std::string> instead[] = {
        {"request_hash", "''"},
        {"name", Beginning("name", limits::kNameBytes)},
        {"owner", Beginning("owner", limits::kOwnerBytes)},
        {"message", Beginning("message", limits::kMessageBytes)},
        {"progress", WholeOr("progress", "NULL")},
        {"output_path", Beginning("output_path", limits::kPathBytes)},
        {"spec_json", "''"},
        {"metrics", WholeOr("metrics", "'{}'")},
        {"best_evaluation", WholeOr("best_evaluation", "NULL")},
        {"confusion_matrix", "''"},
        {"warnings", "'[]'"}};
    for (const auto& [column, expression] : instead) {
      const std::string text = absl::StrCat(", ", column, ",");
      columns.replace(columns.find(text), text.size(),
                      absl::StrCat(", ", expression, ","));
    }
    columns.pop_back();
    return "number" + columns;
  }());
  return *sql;
}

void Shorten(jobs::Job& job) {
  job.name = base::Shortened(job.name, limits::kNameBytes);
  job.owner = base::Shortened(job.owner, limits::kOwnerBytes);
  job.message = base::Shortened(job.message, limits::kMessageBytes);
  job.output_path = base::Shortened(job.output_path, limits::kPathBytes);
}

}  // namespace mpsd::store
