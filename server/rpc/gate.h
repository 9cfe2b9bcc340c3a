// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who calls, and whether the call may be done.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/access/audit_trail.h"
#include "server/access/rules.h"
#include "server/access/token_book.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/hosts.h"

namespace mpsd::rpc {

// A call's metadata, as gRPC gives them to handlers and to processors.
using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// The callers that the API knows.
struct KnownCallers {
  // Must outlive the server; null: no token is known.
  access::TokenLookup* tokens = nullptr;
  access::RolePolicy roles;  // of accounts
};

// A connection's credentials are stored in its grpc::AuthContext, which gRPC
// keeps for all of its calls and which no client can write. A note is written
// once, before the connection's first handler runs, and read by handlers.

// Notes that the kernel names the account `uid` of the user `user`.
void NoteAccount(uid_t uid, const std::string& user,
                 grpc::AuthContext& connection);

// The caller on a connection with these notes: the account; else the owner of
// the token that the call carries. Unauthenticated, with what to do, if there
// is neither. The caller's origin stays empty.
absl::StatusOr<access::Caller> CallerOf(const grpc::AuthContext& connection,
                                        const Metadata& metadata,
                                        const KnownCallers& known);

// The value of the call's one "authorization: Bearer TOKEN"; nullopt if there
// is no such line. Unauthenticated, without quoting it, for several lines,
// another scheme and a token longer than limits::kTokenBytes. The value lives
// as long as the metadata.
absl::StatusOr<std::optional<std::string_view>> BearerToken(
    const Metadata& metadata);

// A call's origin, human-readable: "10.0.0.1", "fe80::1"; "this machine" for a
// unix socket.
std::string Origin(std::string_view peer);

// Authenticates a call, by its connection and its metadata. Unauthenticated for
// an unknown caller. Called on gRPC's own threads: never blocks.
using Identify = std::function<absl::StatusOr<access::Caller>(
    const grpc::CallbackServerContext&)>;

// Identifies callers by the notes of the server's entrances (entrances.h) on
// their connection, or by their token. No metadata but a known token identifies
// a caller.
Identify MakeIdentify(KnownCallers known);

// A handler's description of a call before anything is done.
struct Asked {
  access::Method method;
  std::string job_id = {};  // the job that the method's rule concerns
  std::string detail = {};  // for the audit: access::Request::detail
};

// The greatest request of a method that names no other, in bytes.
inline constexpr size_t kRequestBytes = 64 << 10;

// How a call's request is read. Until the gate has admitted the caller it is
// bytes: a parser makes up to twenty times as many of them.
struct Ask {
  size_t bytes = 0;  // of the request
  // Parses the request and fills in what it asks for. Null: there is none.
  std::function<absl::Status(Asked&)> read = nullptr;
};
// Of the bytes that came, which outlive the result.
using MakeAsk = std::function<Ask(grpc::ByteBuffer&)>;

// What a handler knows of a call besides its messages.
struct Call {
  access::Rights rights;    // the caller, and what the caller may see
  jobs::Wanted wanted;      // whether the client still waits
  std::string made_job_id;  // the job that the handler made, for the audit
  // The caller's, for calls that make jobs or queue them again.
  jobs::UserLimits limits = {};
};

// Admits the calls that the rules of server/access/rules.h allow, and has the
// audited ones recorded, including refused ones. Every unary call and every
// stream goes through Enter and then, with its request, through CheckJob or
// Begin. Thread-safe.
class Gate {
 public:
  struct Options {
    Identify identify;
    bool private_jobs = false;
    access::AuditLog* audit;
  };
  // `jobs` and the audit must outlive the gate.
  Gate(Options options, jobs::JobReader& jobs)
      : options_(std::move(options)), jobs_(jobs) {}

  // The caller. Unauthenticated for an unknown caller; PermissionDenied for one
  // with an insufficient role: a request of up to kRequestBytes is then read
  // for the audit. Called on gRPC's own threads: never blocks.
  absl::StatusOr<access::Rights> Enter(
      const grpc::CallbackServerContext& context, access::Method method,
      const Ask& ask) const;

  // Enter for a stream, which is added to `host`. Authenticates again once
  // RpcServer::EndStreams can find the stream, so that it does not survive a
  // token that was revoked meanwhile.
  absl::StatusOr<access::Rights> EnterStream(
      const grpc::CallbackServerContext& context, access::Method method,
      const Ask& ask, StreamHost& host, ClosableStream& stream) const;

  // Whether the caller may do what is asked, and access the job. Reads the
  // store. Another error if the owner cannot be read: then nothing may be done.
  absl::Status CheckJob(const Asked& asked, const access::Rights& rights) const;

  // CheckJob; then records an audited call. Returns the number for End, 0 for a
  // call that is not audited. An error means that nothing may be done.
  absl::StatusOr<int64_t> Begin(const Asked& asked,
                                const access::Rights& rights) const;
  // The outcome. `made_job_id`: the job that was created, or "".
  void End(int64_t entry, const absl::Status& result,
           const std::string& made_job_id) const;

 private:
  absl::Status Refuse(const access::Caller& caller, const Asked& asked,
                      absl::Status why) const;

  const Options options_;
  jobs::JobReader& jobs_;
};

}  // namespace mpsd::rpc
