// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/queue_calls.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/job_calls.h"

namespace mpsd::rpc {
namespace {

// The requesting user, and the given reason.
std::string By(const Call& call, const std::string& reason) {
  const std::string& user = call.rights.caller().user;
  std::string words =
      absl::StrCat("by ", user.empty() ? "an unnamed user" : user);
  if (!reason.empty()) absl::StrAppend(&words, ": ", reason);
  return words;
}

absl::Status Fill(jobs::JobReader& reader, const Call& call,
                  const absl::StatusOr<jobs::Job>& job, v1::Job& response) {
  if (!job.ok()) return job.status();
  FillJob(reader, call.rights, *job, response);
  return absl::OkStatus();
}

// An admin's top and bottom count among all owners.
absl::StatusOr<jobs::MoveTo> MoveOf(const v1::MoveRequest& request,
                                    const access::Rights& rights) {
  using Where = jobs::MoveTo::Where;
  switch (request.to_case()) {
    case v1::MoveRequest::kTop:
      if (request.top()) return jobs::MoveTo{Where::kTop, 0, rights.is_admin()};
      break;
    case v1::MoveRequest::kBottom:
      if (request.bottom()) {
        return jobs::MoveTo{Where::kBottom, 0, rights.is_admin()};
      }
      break;
    case v1::MoveRequest::kPriority:
      return jobs::MoveTo{Where::kPriority, request.priority(), false};
    case v1::MoveRequest::TO_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "to: set top or bottom to true, or a priority");
}

}  // namespace

absl::Status HoldJob(jobs::JobManager& manager, jobs::JobReader& reader,
                     const v1::HoldRequest& request, const Call& call,
                     v1::Job& response) {
  absl::Status checked = CheckId("id", request.id());
  if (checked.ok()) {
    checked = CheckText("reason", request.reason(), limits::kReasonBytes);
  }
  if (!checked.ok()) return checked;
  return Fill(reader, call,
              manager.Hold(request.id(), By(call, request.reason())), response);
}

absl::Status ReleaseJob(jobs::JobManager& manager, jobs::JobReader& reader,
                        const v1::ReleaseRequest& request, const Call& call,
                        v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  return Fill(reader, call, manager.Release(request.id()), response);
}

absl::Status MoveJob(jobs::JobManager& manager, jobs::JobReader& reader,
                     const v1::MoveRequest& request, const Call& call,
                     v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(const jobs::MoveTo to, MoveOf(request, call.rights));
  return Fill(reader, call, manager.Move(request.id(), to, call.limits),
              response);
}

absl::Status RetryJob(jobs::JobManager& manager, jobs::JobReader& reader,
                      const v1::RetryRequest& request, const Call& call,
                      v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  return Fill(reader, call,
              manager.Retry(request.id(), request.from_scratch(), call.limits),
              response);
}

absl::Status DrainQueue(jobs::JobManager& manager,
                        const v1::DrainRequest& request, const Call& call) {
  RETURN_IF_ERROR(CheckText("reason", request.reason(), limits::kReasonBytes));
  return manager.DrainQueue(
      absl::StrCat("mpsd is drained ", By(call, request.reason())));
}

}  // namespace mpsd::rpc
