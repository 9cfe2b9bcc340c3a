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

// A handler's description of a call before anything is done.
struct Asked {
  access::Method method;
  std::string job_id = {};  // the job that the method's rule concerns
  std::string detail = {};  // for the audit: access::Request::detail
  // As Rule::needs_no_room, for every call of the method.
  bool needs_no_room = false;
};

// Admits the calls that the rules of server/access/rules.h allow, and has the
// audited ones recorded, including refused ones. Every unary call and every
// stream goes through Enter and then through CheckJob or Begin. Thread-safe.
class Gate {
 public:
  struct Options {
    Identify identify;
    bool private_jobs = false;
    access::AuditLog* audit = nullptr;  // null: nothing is recorded
  };
  // `jobs` and the audit must outlive the gate.
  Gate(Options options, jobs::JobReader& jobs)
      : options_(std::move(options)), jobs_(jobs) {}

  // The caller. Unauthenticated for an unknown caller; PermissionDenied for one
  // with an insufficient role. Called on gRPC's own threads: never blocks.
  absl::StatusOr<access::Rights> Enter(
      const grpc::CallbackServerContext& context, const Asked& asked) const;

  // Enter for a call from another listener than gRPC's: `caller` is the
  // authenticated caller or the authentication error; `stranger`: what the
  // audit records if authentication fails.
  absl::StatusOr<access::Rights> Enter(absl::StatusOr<access::Caller> caller,
                                       const access::Caller& stranger,
                                       const Asked& asked) const;

  // Enter for a stream, which is added to `host`. Authenticates again once
  // RpcServer::EndStreams can find the stream, so that it does not survive a
  // token that was revoked meanwhile.
  absl::StatusOr<access::Rights> EnterStream(
      const grpc::CallbackServerContext& context, const Asked& asked,
      StreamHost& host, ClosableStream& stream) const;

  // Whether the caller may access the job as requested. Reads the store.
  // Another error if the owner cannot be read: then nothing may be done.
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

#endif  // MPSD_SERVER_RPC_GATE_H_
