// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/list_audit.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

constexpr size_t kDigestDigits = 12;

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
                      base::Sha256Hex(text).substr(0, kDigestDigits));
}

absl::Status ReadPage(const v1::ListAuditRequest& request,
                      access::AuditFilter& filter) {
  if (request.page_size() < 0 || request.page_size() > limits::kAuditPage) {
    return absl::InvalidArgumentError(absl::StrCat("page_size: must be 0 to ",
                                                   limits::kAuditPage, ", is ",
                                                   request.page_size()));
  }
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

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

absl::StatusOr<access::AuditFilter> ReadFilter(
    const access::Caller& caller, const v1::ListAuditRequest& request) {
  absl::Status checked =
      CheckLength("user", request.user(), limits::kOwnerBytes);
  if (checked.ok()) {
    checked = CheckLength("job_id", request.job_id(), limits::kIdBytes);
  }
  if (checked.ok()) {
    checked = CheckLength("method", request.method(), limits::kKeyBytes);
  }
  if (!checked.ok()) return checked;
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
  if (request.has_since()) filter.since = ToTime(request.since());
  if (request.has_until()) filter.until = ToTime(request.until());
  checked = ReadPage(request, filter);
  if (!checked.ok()) return checked;
  return filter;
}

// access.proto numbers roles and ways as server/access/rules.h does.
static_assert(static_cast<int>(access::Role::kAdmin) == v1::ROLE_ADMIN);
static_assert(static_cast<int>(access::Way::kPage) == v1::WAY_PAGE);

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

}  // namespace mpsd::rpc
