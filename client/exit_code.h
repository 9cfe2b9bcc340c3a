// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_EXIT_CODE_H_
#define MPSD_CLIENT_EXIT_CODE_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
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
  // The daemon does not know the caller, or the caller may not do this; or the
  // client does not trust the daemon's certificate.
  kNotLetIn = 8,
  // What a study, or a plan, found (v1::Verdict).
  kVerdictFail = 10,
  kVerdictWarn = 11,
  kDetached = 130,  // Ctrl-C while watching; the job goes on
};

// The table above, as `mpsctl --help` prints it.
std::string ExitCodeHelp();

// The code of a failed call: UNAVAILABLE is kUnreachable, DEADLINE_EXCEEDED
// kTryAgain, NOT_FOUND kNotFound, UNAUTHENTICATED and PERMISSION_DENIED
// kNotLetIn, and an error that the caller can mend
// kBadInput.
ExitCode ForStatus(const grpc::Status& status);

// The code of a tunnel that did not open: InvalidArgument, a wrong URL, is
// kBadInput, Internal, a fault of this machine, kOther; a refusal has the code
// of a call that is refused so.
ExitCode ForTunnel(const absl::Status& status);

// The code of what a study found; a study that could not tell anything is kOk.
ExitCode ForVerdict(v1::Verdict verdict);

// The code for a job that ended in `state`; kOk for a state that is not final.
ExitCode ForJobState(v1::JobState state);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_EXIT_CODE_H_
