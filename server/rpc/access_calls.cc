// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/access_calls.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "server/models/pushed_models.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {

jobs::UserLimits UserAccounts::LimitsOf(const access::Rights& rights) const {
  if (rights.is_admin()) return {};
  return limits->Of(rights.caller().user);
}

std::unique_ptr<jobs::UploadClaim> UserAccounts::BeginUpload(
    const access::Rights& rights) const {
  const std::string& user = rights.caller().user;
  return ledger->Begin(user, jobs::UploadCheckOf(user, LimitsOf(rights)));
}

absl::Status UserAccounts::Describe(const access::Rights& rights,
                                    jobs::JobReader& reader,
                                    v1::UserUsage& out) const {
  const std::string& user = rights.caller().user;
  const jobs::UserLimits most = LimitsOf(rights);
  out.set_user(user);
  out.set_queued_jobs(reader.QueuedOf(user));
  if (most.queued_jobs) out.set_max_queued_jobs(*most.queued_jobs);
  if (most.upload_bytes) out.set_max_upload_bytes(*most.upload_bytes);
  if (most.result_bytes) out.set_max_result_bytes(*most.result_bytes);
  const jobs::UserLimits none;
  if (most.lowest_priority != none.lowest_priority) {
    out.set_min_priority(most.lowest_priority);
  }
  if (most.highest_priority != none.highest_priority) {
    out.set_max_priority(most.highest_priority);
  }
  ASSIGN_OR_RETURN(const jobs::UserBytes bytes, ledger->BytesOf(user));
  out.set_upload_bytes(bytes.uploads);
  out.set_result_bytes(bytes.results);
  return absl::OkStatus();
}

namespace {

// Roles and ways have the same numbers in the API and in the database.
static_assert(v1::ROLE_VIEWER == static_cast<int>(access::Role::kViewer));
static_assert(v1::ROLE_USER == static_cast<int>(access::Role::kUser));
static_assert(v1::ROLE_ADMIN == static_cast<int>(access::Role::kAdmin));
static_assert(v1::WAY_SOCKET == static_cast<int>(access::Way::kSocket));
static_assert(v1::WAY_TOKEN == static_cast<int>(access::Way::kToken));
static_assert(v1::WAY_PAGE == static_cast<int>(access::Way::kPage));

// The times that protobuf's Timestamp may hold, from 1970 on, in seconds.
constexpr int64_t kLastSecond = 253'402'300'799;  // of the year 9999

void FillToken(const access::Token& token, v1::Token& out) {
  out.set_id(access::TokenId(token.sha256));
  out.set_user(ValidUtf8(token.user));
  out.set_role(static_cast<v1::Role>(token.role));
  out.set_note(ValidUtf8(token.note));
  ToProto(token.create_time, *out.mutable_create_time());
  if (token.expire_time.has_value()) {
    ToProto(*token.expire_time, *out.mutable_expire_time());
  }
  if (token.last_use.has_value()) {
    ToProto(*token.last_use, *out.mutable_last_use_time());
  }
  out.set_created_by(ValidUtf8(token.created_by));
}

bool IsOwn(const access::Token& token, const access::Caller& caller) {
  return !caller.user.empty() && token.user == caller.user;
}

// Whether the caller may see and revoke the token.
bool MayHandle(const access::Caller& caller, const access::Token& token) {
  return caller.role == access::Role::kAdmin || IsOwn(token, caller);
}

absl::StatusOr<access::Role> RoleOf(v1::Role role,
                                    const access::Caller& caller) {
  const std::optional<access::Role> known =
      report::Numbered(access::kRoles, role);
  if (!known.has_value()) {
    return absl::InvalidArgumentError("role: must be viewer, user or admin");
  }
  if (*known > caller.role) {
    return absl::PermissionDeniedError(
        absl::StrCat("role: a token with the role ", std::string(Name(*known)),
                     " can be made by those who have that role, and yours is ",
                     std::string(Name(caller.role))));
  }
  return *known;
}

absl::StatusOr<absl::Time> ExpiryOf(const google::protobuf::Timestamp& stamp,
                                    absl::Time now) {
  const bool valid = stamp.seconds() >= 0 && stamp.seconds() <= kLastSecond &&
                     stamp.nanos() >= 0 && stamp.nanos() < 1'000'000'000;
  if (!valid) {
    return absl::InvalidArgumentError(
        "expire_time: must be a time before the year 10000; leave it out for a "
        "token that never expires");
  }
  const absl::Time time = FromProto(stamp);
  if (time > now) return time;
  return absl::InvalidArgumentError(
      absl::StrCat("expire_time: ", absl::FormatTime(time, absl::UTCTimeZone()),
                   " is over: by the daemon's clock it is ",
                   absl::FormatTime(now, absl::UTCTimeZone())));
}

absl::Status CheckUser(const std::string& user) {
  if (access::IsUserName(user)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("user: '", base::Quotable(user),
                   "' is not a user name: expected 1 to ", limits::kUserBytes,
                   " letters, digits and ._@+-, first a letter, a digit or _"));
}

absl::StatusOr<access::TokenOrder> OrderOf(
    const v1::CreateTokenRequest& request, const access::Caller& caller,
    absl::Time now) {
  RETURN_IF_ERROR(CheckUser(request.user()));
  RETURN_IF_ERROR(CheckText("note", request.note(), limits::kTokenNoteBytes));
  access::TokenOrder order;
  ASSIGN_OR_RETURN(order.role, RoleOf(request.role(), caller));
  order.user = request.user();
  order.note = request.note();
  order.created_by = caller.user;
  if (request.has_expire_time()) {
    ASSIGN_OR_RETURN(order.expire_time, ExpiryOf(request.expire_time(), now));
  }
  return order;
}

}  // namespace

absl::Status WhoAmI(const access::TokenBook& book, const access::Caller& caller,
                    std::optional<absl::Time> certificate_expiry,
                    v1::WhoAmIResponse& response) {
  response.set_user(ValidUtf8(caller.user));
  response.set_role(static_cast<v1::Role>(caller.role));
  response.set_way(static_cast<v1::Way>(caller.way));
  if (certificate_expiry.has_value()) {
    ToProto(*certificate_expiry, *response.mutable_certificate_expire_time());
  }
  const auto id = access::CredentialTokenId(caller.credential);
  if (caller.way != access::Way::kToken || !id.has_value()) {
    return absl::OkStatus();
  }
  // The token may have been revoked since the call was admitted.
  const std::optional<access::Token> token = book.Get(*id);
  if (token.has_value()) FillToken(*token, *response.mutable_token());
  return absl::OkStatus();
}

absl::Status CreateToken(access::TokenBook& book, const access::Caller& caller,
                         const v1::CreateTokenRequest& request,
                         v1::CreateTokenResponse& response) {
  ASSIGN_OR_RETURN(access::TokenOrder order,
                   OrderOf(request, caller, book.now()));
  ASSIGN_OR_RETURN(access::NewToken made, book.Create(order));
  response.set_secret(std::move(made.secret));
  FillToken(made.token, *response.mutable_token());
  return absl::OkStatus();
}

absl::Status ListTokens(const access::TokenBook& book,
                        const access::Caller& caller,
                        v1::ListTokensResponse& response) {
  for (const access::Token& token : book.List()) {
    if (MayHandle(caller, token)) FillToken(token, *response.add_tokens());
  }
  return absl::OkStatus();
}

absl::Status RevokeToken(access::TokenBook& book, const access::Caller& caller,
                         const v1::RevokeTokenRequest& request,
                         v1::RevokeTokenResponse& response) {
  if (!access::IsTokenId(request.id())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "id: is not a token id, which has ", access::kTokenIdDigits,
        " hexadecimal digits; the list of tokens shows them"));
  }
  const std::optional<access::Token> token = book.Get(request.id());
  // Only admins can tell another user's token from one that does not exist.
  if (!token.has_value() || !MayHandle(caller, *token)) {
    return absl::NotFoundError(absl::StrCat(
        "id: there is no token ", request.id(), ", or it is another user's"));
  }
  ASSIGN_OR_RETURN(int ended, book.Revoke(request.id()));
  response.set_ended_streams(ended);
  return absl::OkStatus();
}

namespace {

// "<number>.<digest of number and filter>": the last entry of the page.
std::string PageToken(int64_t number, const access::AuditFilter& filter) {
  std::string text = absl::StrCat(number);
  for (const std::string& part :
       {filter.user, filter.job_id, filter.method, absl::StrCat(filter.refused),
        absl::StrCat(ToUnixMicros(filter.since)),
        absl::StrCat(ToUnixMicros(filter.until))}) {
    absl::StrAppend(&text, "|", part.size(), ":", part);
  }
  return absl::StrCat(number, ".",
                      base::Sha256Hex(text).substr(0, kPageDigestDigits));
}

absl::Status ReadPage(const v1::ListAuditRequest& request,
                      access::AuditFilter& filter) {
  RETURN_IF_ERROR(
      CheckPageSize("page_size", request.page_size(), limits::kAuditPage));
  filter.limit =
      request.page_size() == 0 ? limits::kDefaultPageSize : request.page_size();
  const std::string& token = request.page_token();
  if (token.empty()) return absl::OkStatus();
  int64_t number = 0;
  if (token.size() > limits::kPageTokenBytes ||
      !absl::SimpleAtoi(token.substr(0, token.find('.')), &number) ||
      token != PageToken(number, filter)) {
    return absl::InvalidArgumentError(
        "page_token: is not one that ListAudit gave for this filter");
  }
  filter.before = number;
  return absl::OkStatus();
}

absl::StatusOr<access::AuditFilter> ReadFilter(
    const access::Caller& caller, const v1::ListAuditRequest& request) {
  RETURN_IF_ERROR(CheckLength("user", request.user(), limits::kOwnerBytes));
  RETURN_IF_ERROR(CheckLength("job_id", request.job_id(), limits::kIdBytes));
  RETURN_IF_ERROR(CheckLength("method", request.method(), limits::kKeyBytes));
  access::AuditFilter filter;
  filter.user = request.user();
  if (caller.role != access::Role::kAdmin) {
    if (caller.user.empty() ||
        (!filter.user.empty() && filter.user != caller.user)) {
      return absl::PermissionDeniedError(
          "user: the role admin is needed to see what others did");
    }
    filter.user = caller.user;
  }
  filter.job_id = request.job_id();
  filter.method = request.method();
  filter.refused = request.refused();
  if (request.has_since()) filter.since = FromProto(request.since());
  if (request.has_until()) filter.until = FromProto(request.until());
  RETURN_IF_ERROR(ReadPage(request, filter));
  return filter;
}

void FillEntry(const access::AuditEntry& entry, v1::AuditEntry& out) {
  const access::Request& request = entry.request;
  out.set_sequence(entry.number);
  ToProto(entry.time, *out.mutable_time());
  out.set_user(ValidUtf8(request.caller.user));
  // An unknown caller's entry only has the request's origin.
  if (!request.caller.user.empty()) {
    out.set_role(static_cast<v1::Role>(request.caller.role));
  }
  out.set_way(static_cast<v1::Way>(request.caller.way));
  out.set_credential(ValidUtf8(request.caller.credential));
  out.set_origin(ValidUtf8(request.caller.origin));
  out.set_method(ValidUtf8(request.method));
  out.set_job_id(ValidUtf8(request.job_id));
  out.set_detail(ValidUtf8(request.detail));
  if (entry.result.has_value()) {
    out.set_result(absl::StatusCodeToString(*entry.result));
  }
  out.set_message(ValidUtf8(entry.message));
}

}  // namespace

absl::Status ListAudit(access::AuditStore& audit, const access::Caller& caller,
                       const v1::ListAuditRequest& request,
                       v1::ListAuditResponse& response) {
  ASSIGN_OR_RETURN(access::AuditFilter filter, ReadFilter(caller, request));
  const size_t page_size = filter.limit;
  ++filter.limit;  // one more shows whether there is a next page
  ASSIGN_OR_RETURN(std::vector<access::AuditEntry> listed, audit.List(filter));
  size_t bytes = 0;
  for (size_t i = 0; i < listed.size(); ++i) {
    if (i == page_size || bytes > limits::kPageBytes) {
      response.set_next_page_token(PageToken(listed[i - 1].number, filter));
      break;
    }
    v1::AuditEntry& out = *response.add_entries();
    FillEntry(listed[i], out);
    bytes += out.ByteSizeLong();
  }
  return absl::OkStatus();
}

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

std::string AuditDetail(const v1::DeleteRequest& request) {
  return request.dry_run() ? "dry run" : "";
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
