// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/audit_detail.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/sha256.h"
#include "server/access/token_book.h"
#include "server/jobs/job_id.h"
#include "server/models/pushed_models.h"

namespace mpsd::rpc {
namespace {

std::string RoleName(v1::Role role) {
  const std::string name = v1::Role_Name(role);
  constexpr size_t kPrefix = sizeof("ROLE_") - 1;
  return name.size() < kPrefix ? absl::StrCat("role ", role)
                               : absl::AsciiStrToLower(name.substr(kPrefix));
}

// A model's name is public, and text that is not a name may be anything.
std::string ModelDetail(const std::string& name) {
  return models::CheckModelName("", name).ok() ? name : "an invalid model name";
}

template <typename Request>
std::string PullDetail(const Request& request) {
  std::string model = ModelDetail(request.id());
  if (!models::CheckRevision("", request.revision()).ok()) return model;
  return absl::StrCat(model, "@", request.revision());
}

}  // namespace

std::string AuditDetail(const v1::SubmitRequest& request) {
  std::string detail;
  // Before the check of its size the text may be as large as a message.
  if (request.spec_json().size() <= limits::kSpecBytes) {
    detail = absl::StrCat(
        "a spec with the SHA-256 ",
        base::Sha256Hex(request.spec_json()).substr(0, limits::kWholeId));
  } else {
    detail = "a spec that is too long";
  }
  absl::StrAppend(&detail, ", inputs: ", request.inputs().size());
  if (request.priority() != 0) {
    absl::StrAppend(&detail, ", priority ", request.priority());
  }
  if (request.anyway()) absl::StrAppend(&detail, ", anyway");
  if (!request.after().empty()) {
    absl::StrAppend(&detail, ", after jobs: ", request.after().size());
  }
  if (request.held()) absl::StrAppend(&detail, ", held");
  return detail;
}

std::string AuditDetail(const v1::CancelRequest& request) {
  return request.now() ? "now" : "";
}

std::string AuditDetail(const v1::MoveRequest& request) {
  switch (request.to_case()) {
    case v1::MoveRequest::kTop:
      return "to the top";
    case v1::MoveRequest::kBottom:
      return "to the bottom";
    case v1::MoveRequest::kPriority:
      return absl::StrCat("to priority ", request.priority());
    case v1::MoveRequest::TO_NOT_SET:
      break;
  }
  return "nowhere";
}

std::string AuditDetail(const v1::RetryRequest& request) {
  return request.from_scratch() ? "from scratch" : "";
}

std::string AuditDetail(const v1::DrainRequest& request) {
  return base::Quotable(request.reason());
}

std::string AuditDetail(const v1::DeleteJobsRequest& request) {
  std::string detail = request.has_filter()
                           ? "jobs by a filter"
                           : absl::StrCat(request.ids().size(), " jobs");
  if (request.dry_run()) absl::StrAppend(&detail, ", dry run");
  return detail;
}

std::string AuditDetail(const v1::CreateTokenRequest& request) {
  std::string detail = absl::StrCat("for ", base::Quotable(request.user()),
                                    ", ", RoleName(request.role()), ", ");
  if (request.has_expire_time()) {
    const absl::Time time =
        absl::FromUnixSeconds(request.expire_time().seconds());
    absl::StrAppend(
        &detail, "until ",
        absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone()));
  } else {
    absl::StrAppend(&detail, "for ever");
  }
  return detail;
}

std::string AuditDetail(const v1::RevokeTokenRequest& request) {
  return access::IsTokenId(request.id()) ? absl::StrCat("token ", request.id())
                                         : "an invalid token id";
}

std::string AuditDetail(const v1::PushModelRequest& request) {
  return absl::StrCat(ModelDetail(request.name()),
                      ", files: ", request.files().size());
}

std::string AuditDetail(const v1::RemoveModelRequest& request) {
  return ModelDetail(request.name());
}

std::string AuditDetail(const v1::PullModelRequest& request) {
  return PullDetail(request);
}

std::string AuditDetail(const v1::CancelPullRequest& request) {
  return PullDetail(request);
}

std::string AuditDetail(const v1::AddNoteRequest& request) {
  return absl::StrCat("a note of ", request.text().size(), " bytes");
}

std::string AuditDetail(const v1::TagRequest& request) {
  return absl::StrCat("adds ", request.add().size(), " tags, removes ",
                      request.remove().size());
}

std::string AuditDetail(const v1::DiagnoseRequest& request) {
  return request.deep() ? "measures the disk, runs the self-test" : "";
}

}  // namespace mpsd::rpc
