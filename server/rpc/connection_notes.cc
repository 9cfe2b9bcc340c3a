// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/connection_notes.h"

#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace mpsd::rpc {
namespace {

constexpr char kUid[] = "mpsd-uid";
constexpr char kUser[] = "mpsd-user";

// The only value of a note; "" if there is none.
std::string Note(const grpc::AuthContext& connection, const char* name) {
  const std::vector<grpc::string_ref> values =
      connection.FindPropertyValues(name);
  if (values.size() != 1) return "";
  return std::string(values[0].data(), values[0].size());
}

absl::StatusOr<access::Caller> CallerByToken(std::string_view token,
                                             const KnownCallers& known) {
  if (known.tokens != nullptr) {
    if (std::optional<access::Caller> caller = known.tokens->Find(token)) {
      return *std::move(caller);
    }
  }
  return absl::UnauthenticatedError(
      "the token is not known: it was revoked, has expired or is another "
      "daemon's; ask an admin for a new one and run mpsctl login");
}

}  // namespace

void NoteAccount(uid_t uid, const std::string& user,
                 grpc::AuthContext& connection) {
  if (!Note(connection, kUid).empty()) return;
  connection.AddProperty(kUser, user);
  connection.AddProperty(kUid, absl::StrCat(uid));
}

absl::StatusOr<access::Caller> CallerOf(const grpc::AuthContext& connection,
                                        const Metadata& metadata,
                                        const KnownCallers& known) {
  if (const std::string uid = Note(connection, kUid); !uid.empty()) {
    uid_t number = 0;
    if (!absl::SimpleAtoi(uid, &number)) {
      return absl::InternalError("the account's number is not a number");
    }
    access::Caller caller;
    caller.user = Note(connection, kUser);
    caller.role = known.roles.OfAccount(number, caller.user);
    caller.way = access::Way::kSocket;
    caller.credential = absl::StrCat("uid ", uid);
    return caller;
  }
  ASSIGN_OR_RETURN(const std::optional<std::string_view> token,
                   BearerToken(metadata));
  if (token.has_value()) return CallerByToken(*token, known);
  return absl::UnauthenticatedError(
      "no token came with the call; ask an admin of the daemon for one (mpsctl "
      "token create) and run mpsctl login");
}

}  // namespace mpsd::rpc
