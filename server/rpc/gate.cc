// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/gate.h"

#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/store/job.h"

namespace mpsd::rpc {
namespace {

constexpr char kUid[] = "mpsd-uid";
constexpr char kUser[] = "mpsd-user";
constexpr absl::string_view kScheme = "Bearer ";

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

// The audit's record of an unknown caller.
access::Caller Stranger(const grpc::CallbackServerContext& context) {
  access::Caller stranger;
  const std::string peer = context.peer();
  if (peer.starts_with("ip")) stranger.way = access::Way::kToken;
  stranger.origin = Origin(peer);
  return stranger;
}

access::Request ToNote(const access::Caller& caller, const Asked& asked) {
  // Text that is not a job's id may be long, and anything.
  const bool is_id = jobs::IsJobId(asked.job_id);
  return {caller, asked.method.rule().method, is_id ? asked.job_id : "",
          asked.detail};
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
      "admin token create) and run mpsctl login");
}

absl::StatusOr<std::optional<std::string_view>> BearerToken(
    const Metadata& metadata) {
  const auto [begin, end] = metadata.equal_range("authorization");
  if (begin == end) return std::nullopt;
  if (std::next(begin) != end) {
    return absl::UnauthenticatedError(
        "metadata authorization: expected one line, not several");
  }
  const std::string_view value(begin->second.data(), begin->second.size());
  const std::string scheme(value.substr(0, kScheme.size()));
  if (!absl::EqualsIgnoreCase(scheme, kScheme)) {
    return absl::UnauthenticatedError(
        "metadata authorization: expected \"Bearer TOKEN\"");
  }
  const std::string_view token = value.substr(kScheme.size());
  if (token.empty() || token.size() > limits::kTokenBytes) {
    return absl::UnauthenticatedError(
        "metadata authorization: the token is empty or too long");
  }
  return token;
}

std::string Origin(std::string_view peer) {
  if (!peer.starts_with("ip")) return "this machine";
  const std::string_view machine = peer.substr(0, peer.rfind(':'));
  // gRPC writes an IPv6 address as in a URI: "ipv6:%5Bfe80::1%5D".
  std::string address = absl::StrReplaceAll(
      std::string(machine.substr(machine.find(':') + 1)),
      {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}, {"%25", "%"}});
  // An IPv4 client of a socket for both.
  return std::string(absl::StripPrefix(address, "::ffff:"));
}

Identify MakeIdentify(KnownCallers known) {
  return [known = std::move(known)](const grpc::CallbackServerContext& context)
             -> absl::StatusOr<access::Caller> {
    absl::StatusOr<access::Caller> caller =
        CallerOf(*context.auth_context(), context.client_metadata(), known);
    if (caller.ok()) caller->origin = Origin(context.peer());
    return caller;
  };
}

absl::StatusOr<access::Rights> Gate::Enter(
    const grpc::CallbackServerContext& context, access::Method method,
    const Ask& ask) const {
  Asked asked{method};
  absl::StatusOr<access::Caller> caller = options_.identify(context);
  if (!caller.ok()) return Refuse(Stranger(context), asked, caller.status());
  absl::Status may = access::CheckRole(method.rule(), *caller);
  if (may.ok())
    return access::Rights(*std::move(caller), options_.private_jobs);
  if (method.rule().audited && ask.read && ask.bytes <= kRequestBytes) {
    ask.read(asked).IgnoreError();
  }
  return Refuse(*caller, asked, std::move(may));
}

absl::StatusOr<access::Rights> Gate::EnterStream(
    const grpc::CallbackServerContext& context, access::Method method,
    const Ask& ask, StreamHost& host, ClosableStream& stream) const {
  ASSIGN_OR_RETURN(access::Rights rights, Enter(context, method, ask));
  RETURN_IF_ERROR(host.Add(stream, rights.caller()));
  RETURN_IF_ERROR(options_.identify(context).status());
  return rights;
}

absl::Status Gate::CheckJob(const Asked& asked,
                            const access::Rights& rights) const {
  const access::Rule& rule = asked.method.rule();
  // The request may ask for more than its method's rule allows.
  absl::Status may = access::CheckRole(rule, rights.caller());
  if (!may.ok()) return Refuse(rights.caller(), asked, std::move(may));
  const bool of_a_job = rule.concerns == access::Concerns::kReadableJob ||
                        rule.concerns == access::Concerns::kOwnJob;
  // Text that is not a job's id names no job: the handler reports the error.
  if (!of_a_job || !jobs::IsJobId(asked.job_id)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string owner, jobs_.OwnerOf(asked.job_id));
  may = access::CheckOwner(rule, rights, asked.job_id, owner);
  if (may.ok()) return may;
  return Refuse(rights.caller(), asked, std::move(may));
}

absl::StatusOr<int64_t> Gate::Begin(const Asked& asked,
                                    const access::Rights& rights) const {
  RETURN_IF_ERROR(CheckJob(asked, rights));
  if (!asked.method.rule().audited) return 0;
  const access::Request note = ToNote(rights.caller(), asked);
  absl::StatusOr<int64_t> entry = options_.audit->Begin(note);
  if (entry.ok() || !asked.method.rule().needs_no_room) return entry;
  options_.audit->Refused(
      note, absl::UnknownError(absl::StrCat(
                "carried out, though it could not be recorded first: ",
                entry.status().message())));
  return 0;
}

void Gate::End(int64_t entry, const absl::Status& result,
               const std::string& made_job_id) const {
  if (entry != 0) options_.audit->End(entry, result, made_job_id);
}

absl::Status Gate::Refuse(const access::Caller& caller, const Asked& asked,
                          absl::Status why) const {
  if (asked.method.rule().audited) {
    options_.audit->Refused(ToNote(caller, asked), why);
  }
  return why;
}

}  // namespace mpsd::rpc
