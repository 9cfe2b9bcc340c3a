// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_row.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
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

std::optional<jobs::State> StateOf(int64_t number) {
  for (jobs::State state : jobs::kAllStates) {
    if (static_cast<int64_t>(state) == number) return state;
  }
  return std::nullopt;
}

std::optional<jobs::ExitReason> ExitReasonOf(const std::string& name) {
  using R = jobs::ExitReason;
  for (R reason :
       {R::kDone, R::kRejected, R::kOutOfMemory, R::kNonFinite, R::kCrashed,
        R::kHung, R::kCancelled, R::kPreempted, R::kProtocolError}) {
    if (jobs::Name(reason) == name) return reason;
  }
  return std::nullopt;
}

absl::Status Unknown(const jobs::Job& job, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("the database's row of job ", job.id, " has ", what));
}

// The columns that migrations 0002 and 0003 added.
absl::Status ReadOutcome(Query& query, jobs::Job& job) {
  const int64_t kind = query.Int();
  if (kind != 1 && kind != 2) {
    return Unknown(job, absl::StrCat("output kind ", kind));
  }
  job.output_kind = static_cast<jobs::OutputKind>(kind);
  absl::StatusOr<jobs::Metrics> metrics = DecodeMetrics(query.Text());
  if (!metrics.ok()) return metrics.status();
  job.metrics = *std::move(metrics);
  if (const std::optional<std::string> text = query.OptionalText()) {
    absl::StatusOr<jobs::Evaluated> best = DecodeEvaluated(*text);
    if (!best.ok()) return best.status();
    job.best_evaluation = *std::move(best);
  }
  job.confusion_matrix = query.Text();
  absl::StatusOr<std::vector<std::string>> warnings =
      DecodeWarnings(query.Text());
  if (!warnings.ok()) return warnings.status();
  job.warnings = *std::move(warnings);
  return absl::OkStatus();
}

}  // namespace

void BindFixed(Query& query, const jobs::Job& job) {
  query.Bind(job.id);
  query.Bind(absl::ToUnixMicros(job.create_time));
  query.Bind(job.idempotency_key.empty()
                 ? std::nullopt
                 : std::optional<std::string>(job.idempotency_key));
  query.Bind(job.request_hash);
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
}

absl::StatusOr<JobRow> ReadJobRow(Query& query) {
  JobRow row;
  jobs::Job& job = row.job;
  row.number = query.Int();
  job.id = query.Text();
  job.create_time = absl::FromUnixMicros(query.Int());
  job.idempotency_key = query.OptionalText().value_or("");
  job.request_hash = query.Text();
  job.name = query.Text();
  const int64_t state_number = query.Int();
  const std::optional<jobs::State> state = StateOf(state_number);
  if (!state) return Unknown(job, absl::StrCat("state ", state_number));
  job.state = *state;
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
    if (!job.exit_reason) return Unknown(job, "exit reason " + *name);
  }
  if (const std::optional<std::string> text = query.OptionalText()) {
    absl::StatusOr<jobs::Progress> progress = DecodeProgress(*text);
    if (!progress.ok()) return progress.status();
    job.progress = *std::move(progress);
  }
  job.eval_loss_before = query.OptionalReal();
  job.eval_loss_after = query.OptionalReal();
  job.train_loss = query.OptionalReal();
  job.output_path = query.Text();
  job.spec_json = query.Text();
  absl::Status read = ReadOutcome(query, job);
  if (!read.ok()) return read;
  return row;
}

}  // namespace mpsd::store
