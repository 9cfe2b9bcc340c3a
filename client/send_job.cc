// SPDX-License-Identifier: Apache-2.0
#include "client/send_job.h"

#include "client/sure_submit.h"
#include "client/text/format.h"
#include "client/watch.h"

namespace mpsd::client {
namespace {

void PrintSubmitted(const Console& console, const v1::SubmitResponse& response,
                    bool detach) {
  const v1::Job& job = response.job();
  if (console.json) return console.PrintJson(job);
  console.out << "Job " << job.id()
              << (response.existed() ? " was submitted before: "
                                     : " submitted: ")
              << StateName(job.state());
  if (job.has_queue_position() && job.queue_position() > 0) {
    console.out << ", " << job.queue_position() << " ahead of it";
  }
  console.out << '\n';
  // Why it will not start: another job has to end, or somebody to act.
  if (!IsFinal(job.state()) && (job.held() || !job.after().empty()) &&
      !job.hold().empty()) {
    console.out << (job.held() ? "It is held: " : "It ")
                << Printable(job.hold()) << '\n';
  }
  if (detach) {
    console.out << "Follow it with `mpsctl watch " << job.id() << "`.\n";
  }
  console.out << std::flush;
}

}  // namespace

ExitCode SendJob(const Console& console, v1::SubmitRequest request,
                 const std::function<grpc::Status()>& upload, bool detach,
                 std::string* job_id) {
  const bool own_key = request.idempotency_key().empty();
  if (own_key) request.set_idempotency_key(NewIdempotencyKey());
  v1::SubmitResponse response;
  const ExitCode code = SubmitSurely(console, &request, upload, &response);
  if (code != ExitCode::kOk) return code;
  if (job_id != nullptr) *job_id = response.job().id();
  // Under a key of our own, an earlier job comes from an earlier try of this
  // call.
  if (own_key) response.set_existed(false);
  PrintSubmitted(console, response, detach);
  if (detach) return ExitCode::kOk;
  return Watch(console, {.id = response.job().id()});
}

}  // namespace mpsd::client
