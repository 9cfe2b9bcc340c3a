// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

// Only checks the cancellation: gRPC cancels a call whose deadline has passed.
absl::Status IsWanted(const grpc::CallbackServerContext& context,
                      const CallHost& host) {
  if (context.IsCancelled()) {
    return absl::CancelledError("the client no longer waits");
  }
  if (host.closed()) {
    return absl::UnavailableError("mpsd is stopping: try again later");
  }
  return absl::OkStatus();
}

absl::Status Busy(const char* rpc) {
  return absl::UnavailableError(absl::StrCat(
      rpc,
      ": mpsd is busy, too many calls wait already: try again in a few "
      "seconds"));
}

}  // namespace

absl::Status Carry(const Gate& gate, const Asked& asked, const Barrier& barrier,
                   const std::function<absl::Status(Call&)>& work, Call& call) {
  ASSIGN_OR_RETURN(const int64_t entry, gate.Begin(asked, call.rights));
  const absl::Status done =
      barrier.Run(asked.method.rule().method, [&] { return work(call); });
  gate.End(entry, done, call.made_job_id);
  return done;
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const Gate& gate, CallHost& host, Asked asked,
                                 std::function<absl::Status(Call&)> work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const char* const rpc = asked.method.rule().method;
  // This is a gRPC thread, which authenticates the caller, and makes and posts
  // the task. The barrier guards it too, because making a task takes memory.
  const absl::Status posted = host.barrier().Run(rpc, [&] {
    absl::StatusOr<access::Rights> rights = gate.Enter(*context, asked);
    if (!rights.ok()) return rights.status();
    const auto task = [=, &gate, &host, rights = *std::move(rights),
                       asked = std::move(asked), work = std::move(work)] {
      // Finish is the last step: gRPC may free context, request and response
      // before Finish returns.
      reactor->Finish(ToGrpc(host.barrier().Run(rpc, [&] {
        Call call{rights, [=, &host] { return IsWanted(*context, host); }, ""};
        RETURN_IF_ERROR(call.wanted());
        return Carry(gate, asked, host.barrier(), work, call);
      })));
    };
    return host.Post(task) ? absl::OkStatus() : Busy(rpc);
  });
  if (!posted.ok()) reactor->Finish(ToGrpc(posted));
  return reactor;
}

}  // namespace mpsd::rpc
