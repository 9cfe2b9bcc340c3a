// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_JOB_CALLS_H_
#define MPSD_SERVER_OPENAI_JOB_CALLS_H_

#include <string>

#include "absl/synchronization/mutex.h"
#include "mpsd/v1/job.pb.h"
#include "server/http/message.h"
#include "server/openai/desk.h"
#include "server/openai/job_order.h"
#include "server/openai/page.h"

namespace mpsd::openai {

// The calls of /v1/fine_tuning/jobs, each by the function that answers the
// API's. Thread-safe.
class JobCalls {
 public:
  // `desk` must outlive the calls.
  explicit JobCalls(const Desk& desk) : desk_(desk) {}

  // Makes one job of a request that a client sends again: by Idempotency-Key,
  // or where the client says that it tries again and the user made a job by the
  // same request within the last ten minutes.
  http::Response Create(const http::Request& request, const std::string& body);
  // The caller's own jobs, newest first, those of mpsctl included.
  http::Response List(const http::Request& request, const Page& page) const;
  http::Response Get(const http::Request& request, const std::string& id) const;
  http::Response Cancel(const http::Request& request,
                        const std::string& id) const;
  // JobService.Hold and Release: OpenAI's pause, here of queued jobs alone.
  http::Response Pause(const http::Request& request,
                       const std::string& id) const;
  http::Response Resume(const http::Request& request,
                        const std::string& id) const;
  // Newest first.
  http::Response Events(const http::Request& request, const std::string& id,
                        const Page& page) const;
  // Newest first.
  http::Response Checkpoints(const http::Request& request,
                             const std::string& id, const Page& page) const;

 private:
  absl::Status Make(const http::Request& request, const JobOrder& order,
                    const std::string& hash, rpc::Call& call, v1::Job& job);

  const Desk& desk_;
  // Held while a job is looked for and made, so that a second try finds the
  // job of the first.
  absl::Mutex creates_;
};

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_JOB_CALLS_H_
