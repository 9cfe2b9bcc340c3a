// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SUBMIT_H_
#define MPSD_CLIENT_SUBMIT_H_

#include <functional>
#include <string>

#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Asks the daemon whether it answers: the call's status. Where it does, notes
// in `request` how long a small answer takes, for the job's record.
grpc::Status Reach(const Console& console, v1::SubmitRequest* request);

// "mpsctl-" and 32 random hexadecimal digits.
std::string NewIdempotencyKey();

// Queues the job of *request, which has an idempotency key and gets its round
// trip (Reach), a single time. As
// long as the daemon has not told the result (the connection broke, the daemon
// restarts or is busy) the same request is sent again, after 0.2 s, then twice
// as long up to 2 s. The calls have no deadline: the client waits for a daemon
// that is at work, and the connection's keepalive notices a dead one. kOk with
// *response filled; else prints what happened:
//   as Console::Fail  the daemon cannot be reached to begin with, or refused;
//   kTryAgain         ten minutes of attempts and pauses brought no answer, of
//                     each attempt at most one counted;
//   kDetached         Ctrl-C.
// With the last two the job may have been queued; it says how to look.
//
// `upload` sends the inputs that the daemon lacks: where one has gone since
// they were sent (uploads that no job uses do, after a day), it is called once.
ExitCode SubmitSurely(const Console& console, v1::SubmitRequest* request,
                      const std::function<grpc::Status()>& upload,
                      v1::SubmitResponse* response);

// Queues the job of `request`, prints what became of it and, unless `detach`,
// follows the job to its end. A request without an idempotency key gets one of
// its own. `upload` as for SubmitSurely. The job's id goes into *job_id, unless
// null, once the job is queued.
ExitCode SendJob(const Console& console, v1::SubmitRequest request,
                 const std::function<grpc::Status()>& upload, bool detach,
                 std::string* job_id = nullptr);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SUBMIT_H_
