// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/access_calls.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

using google::protobuf::Timestamp;

// Roles and ways have the same numbers in the API and in the database.
static_assert(v1::ROLE_VIEWER == static_cast<int>(access::Role::kViewer));
static_assert(v1::ROLE_USER == static_cast<int>(access::Role::kUser));
static_assert(v1::ROLE_ADMIN == static_cast<int>(access::Role::kAdmin));
static_assert(v1::WAY_SOCKET == static_cast<int>(access::Way::kSocket));
static_assert(v1::WAY_TOKEN == static_cast<int>(access::Way::kToken));
static_assert(v1::WAY_PAGE == static_cast<int>(access::Way::kPage));

// The times that protobuf's Timestamp may hold, from 1970 on, in seconds.
constexpr int64_t kLastSecond = 253'402'300'799;  // of the year 9999

void ToProto(const access::Token& token, v1::Token& out) {
  out.set_id(access::TokenId(token.sha256));
  out.set_user(ValidUtf8(token.user));
  out.set_role(static_cast<v1::Role>(token.role));
  out.set_note(ValidUtf8(token.note));
  rpc::ToProto(token.create_time, *out.mutable_create_time());
  if (token.expire_time.has_value()) {
    rpc::ToProto(*token.expire_time, *out.mutable_expire_time());
  }
  if (token.last_use.has_value()) {
    rpc::ToProto(*token.last_use, *out.mutable_last_use_time());
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

absl::StatusOr<absl::Time> ExpiryOf(const Timestamp& stamp, absl::Time now) {
  const bool valid = stamp.seconds() >= 0 && stamp.seconds() <= kLastSecond &&
                     stamp.nanos() >= 0 && stamp.nanos() < 1'000'000'000;
  if (!valid) {
    return absl::InvalidArgumentError(
        "expire_time: must be a time before the year 10000; leave it out for a "
        "token that never expires");
  }
  const absl::Time time =
      absl::FromUnixSeconds(stamp.seconds()) + absl::Nanoseconds(stamp.nanos());
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
  access::TokenOrder order;
  absl::Status status = CheckUser(request.user());
  if (status.ok()) {
    status = CheckText("note", request.note(), limits::kTokenNoteBytes);
  }
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(access::Role role, RoleOf(request.role(), caller));
  order.user = request.user();
  order.role = role;
  order.note = request.note();
  order.created_by = caller.user;
  if (!request.has_expire_time()) return order;
  ASSIGN_OR_RETURN(absl::Time expiry, ExpiryOf(request.expire_time(), now));
  order.expire_time = expiry;
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
    rpc::ToProto(*certificate_expiry,
                 *response.mutable_certificate_expire_time());
  }
  const auto id = access::CredentialTokenId(caller.credential);
  if (caller.way != access::Way::kToken || !id.has_value()) {
    return absl::OkStatus();
  }
  // The token may have been revoked since the call was admitted.
  const std::optional<access::Token> token = book.Get(*id);
  if (token.has_value()) ToProto(*token, *response.mutable_token());
  return absl::OkStatus();
}

absl::Status CreateToken(access::TokenBook& book, const access::Caller& caller,
                         const v1::CreateTokenRequest& request, absl::Time now,
                         v1::CreateTokenResponse& response) {
  ASSIGN_OR_RETURN(access::TokenOrder order, OrderOf(request, caller, now));
  ASSIGN_OR_RETURN(access::NewToken made, book.Create(order));
  response.set_secret(std::move(made.secret));
  ToProto(made.token, *response.mutable_token());
  return absl::OkStatus();
}

absl::Status ListTokens(const access::TokenBook& book,
                        const access::Caller& caller,
                        v1::ListTokensResponse& response) {
  for (const access::Token& token : book.List()) {
    if (MayHandle(caller, token)) ToProto(token, *response.add_tokens());
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

}  // namespace mpsd::rpc
