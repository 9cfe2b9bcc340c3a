// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SUBMIT_H_
#define MPSD_CLIENT_SUBMIT_H_

#include <functional>
#include <string>

#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Calls the daemon and returns the call's status. On success stores in
// `request`, for the job's record, how long a small call takes.
grpc::Status Reach(const Console& console, v1::SubmitRequest* request);

// "mpsctl-" and 32 random hexadecimal digits.
std::string NewIdempotencyKey();

// Queues the job of *request, which has an idempotency key and gets its round
// trip (Reach), exactly once. Until the daemon has reported the result (the
// connection broke, the daemon restarts or is busy) the same request is sent
// again, after 0.2 s, then twice as long up to 2 s. The calls have no deadline:
// the client waits for a busy daemon, and the connection's keepalive detects a
// dead one. kOk with *response filled; else prints what happened:
//   as Console::Fail  the daemon is unreachable at the start, or refused;
//   kTryAgain         no answer in ten minutes of attempts and pauses, of each
//                     attempt at most one counted;
//   kDetached         Ctrl-C.
// With the last two the job may have been queued; the message says how to
// check.
//
// `upload` sends the inputs that the daemon lacks: it is called once if an
// input has been removed since it was sent (unused uploads are, after a day).
ExitCode SubmitSurely(const Console& console, v1::SubmitRequest* request,
                      const std::function<grpc::Status()>& upload,
                      v1::SubmitResponse* response);

// Queues the job of `request`, prints the outcome and, unless `detach`, follows
// the job to its end. A request without an idempotency key gets a unique one.
// `upload` as for SubmitSurely. Stores the job's id in *job_id, unless null,
// once the job is queued.
ExitCode SendJob(const Console& console, v1::SubmitRequest request,
                 const std::function<grpc::Status()>& upload, bool detach,
                 std::string* job_id = nullptr);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SUBMIT_H_
