// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_EXIT_CODE_H_
#define MPSD_CLIENT_EXIT_CODE_H_

#include <grpcpp/support/status.h>

#include <string>

#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// The exit codes of mpsctl. Scripts rely on the numbers: they never change
// meaning.
enum class ExitCode {
  kOk = 0,
  kJobFailed = 1,     // the job that was watched FAILED
  kBadInput = 2,      // command line, job.json, data files, output
  kUnreachable = 3,   // no daemon is there, or it was away for too long
  kNotFound = 4,      // no such job, checkpoint, output or predictions
  kJobCancelled = 5,  // the job that was watched was CANCELLED
  kOther = 6,         // any other fault, the daemon's or this machine's
  // A daemon is there, but it did not answer in time or could not do the
  // request now; the request may have taken effect all the same.
  kTryAgain = 7,
  kDetached = 130,  // Ctrl-C while watching; the job goes on
};

// The table above, as `mpsctl --help` prints it.
std::string ExitCodeHelp();

// The code of a failed call: UNAVAILABLE is kUnreachable, DEADLINE_EXCEEDED
// kTryAgain, NOT_FOUND kNotFound, and an error that the caller can mend
// kBadInput.
ExitCode ForStatus(const grpc::Status& status);

// The code for a job that ended in `state`; kOk for a state that is not final.
ExitCode ForJobState(v1::JobState state);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_EXIT_CODE_H_
