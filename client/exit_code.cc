// SPDX-License-Identifier: Apache-2.0
#include "client/exit_code.h"

namespace mpsd::client {

std::string ExitCodeHelp() {
  return R"(Exit codes:
  0    done; a watched job SUCCEEDED
  1    the watched job FAILED
  2    bad usage or bad input: command line, job.json, data, output folder
  3    the daemon cannot be reached
  4    no such job, checkpoint, output or predictions
  5    the watched job was CANCELLED
  6    any other error
  7    the daemon is there, but did not answer in time or cannot do it now;
       what was asked for may have happened
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
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::OUT_OF_RANGE:
      return ExitCode::kBadInput;
    default:
      return ExitCode::kOther;
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
