// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_GATE_H_
#define MPSD_SERVER_RPC_GATE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "server/access/audit_trail.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/identify.h"
#include "server/rpc/stream_host.h"

namespace mpsd::rpc {

// What a handler says of a call before anything is done.
struct Asked {
  access::Method method;
  std::string job_id = {};  // the job that the method's rule concerns
  std::string detail = {};  // for the audit: access::Request::detail
  // As Rule::needs_no_room says of every call of the method.
  bool needs_no_room = false;
};

// Lets those calls pass that the rules of server/access/rules.h allow, and has
// the audited ones noted, refused ones too. Every unary call and every stream
// goes through Enter and then through CheckJob or Begin. Thread-safe.
class Gate {
 public:
  struct Options {
    Identify identify;
    bool private_jobs = false;
    access::AuditLog* audit = nullptr;  // null: nothing is noted
  };
  // `jobs` and the audit must outlive the gate.
  Gate(Options options, jobs::JobReader& jobs)
      : options_(std::move(options)), jobs_(jobs) {}

  // Who calls. Unauthenticated for a caller that is not known; PermissionDenied
  // for one whose role does not suffice. Called on gRPC's own threads: waits
  // for nothing.
  absl::StatusOr<access::Rights> Enter(
      const grpc::CallbackServerContext& context, const Asked& asked) const;

  // Enter for a call that comes by another door than gRPC's: `caller` is who
  // that door knows, or why it knows nobody; `stranger` all that is told of a
  // caller who is not known.
  absl::StatusOr<access::Rights> Enter(absl::StatusOr<access::Caller> caller,
                                       const access::Caller& stranger,
                                       const Asked& asked) const;

  // Enter for a stream, which is added to `host`. Asks once more who calls when
  // RpcServer::EndStreams can find the stream, so that it does not survive a
  // token that was revoked meanwhile.
  absl::StatusOr<access::Rights> EnterStream(
      const grpc::CallbackServerContext& context, const Asked& asked,
      StreamHost& host, ClosableStream& stream) const;

  // Whether the caller may do to the job what is asked. Reads the store.
  // Another error where the owner cannot be read: nothing may be done then.
  absl::Status CheckJob(const Asked& asked, const access::Rights& rights) const;

  // CheckJob; then notes an audited call. Returns the number for End, 0 for a
  // call that is not audited. An error means that nothing may be done.
  absl::StatusOr<int64_t> Begin(const Asked& asked,
                                const access::Rights& rights) const;
  // What became of it. `made_job_id`: the job that was made, or "".
  void End(int64_t entry, const absl::Status& result,
           const std::string& made_job_id) const;

 private:
  absl::Status Refuse(const access::Caller& caller, const Asked& asked,
                      absl::Status why) const;

  const Options options_;
  jobs::JobReader& jobs_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_GATE_H_
