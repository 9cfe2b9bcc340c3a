// SPDX-License-Identifier: Apache-2.0
#include "client/exit_code.h"

namespace mpsd::client {

std::string ExitCodeHelp() {
  return R"(Exit codes:
  0    done; a watched job, all that were waited for, SUCCEEDED
  1    the watched job, or one that was waited for, FAILED
  2    bad usage or bad input: command line, job.json, data, output folder
  3    the daemon cannot be reached
  4    no such job, checkpoint, output or predictions
  5    the watched job, or one that was waited for, was CANCELLED
  6    any other error
  7    the daemon is there, but did not answer in time or cannot do it now;
       what was asked for may have happened; or the time of `wait` is up
  8    not let in: the daemon does not know you, your role may not do this, or
       the daemon's certificate is not one to trust
  10   a study, or a plan, says no: its verdict is FAIL
  11   a study says: only after a change; its verdict is WARN
       (`doctor` has codes of its own: 0 well, 1 warnings, 2 something wrong)
  130  interrupted by Ctrl-C; a watched job goes on)";
}

ExitCode ForStatus(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return ExitCode::kOk;
    case grpc::StatusCode::UNAVAILABLE:
      return ExitCode::kUnreachable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ExitCode::kTryAgain;
    case grpc::StatusCode::NOT_FOUND:
      return ExitCode::kNotFound;
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return ExitCode::kNotLetIn;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::OUT_OF_RANGE:
      return ExitCode::kBadInput;
    default:
      return ExitCode::kOther;
  }
}

ExitCode ForTunnel(const absl::Status& status) {
  // The numbers of both are the same.
  return ForStatus(
      grpc::Status(static_cast<grpc::StatusCode>(status.code()), ""));
}

ExitCode ForVerdict(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_FAIL:
      return ExitCode::kVerdictFail;
    case v1::VERDICT_WARN:
      return ExitCode::kVerdictWarn;
    default:
      return ExitCode::kOk;
  }
}

ExitCode ForJobState(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_FAILED:
      return ExitCode::kJobFailed;
    case v1::JOB_STATE_CANCELLED:
      return ExitCode::kJobCancelled;
    default:
      return ExitCode::kOk;
  }
}

}  // namespace mpsd::client
