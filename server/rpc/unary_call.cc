// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

// Looks at the cancellation alone: gRPC cancels a call whose deadline has
// passed.
absl::Status IsWanted(const grpc::CallbackServerContext& context,
                      const CallHost& host) {
  if (context.IsCancelled()) {
    return absl::CancelledError("the client waits no longer");
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

grpc::ServerUnaryReactor* Answer(
    grpc::CallbackServerContext* context, CallHost& host, const char* rpc,
    std::function<absl::Status(const jobs::Wanted&)> work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // This is a thread of gRPC's, which only makes and posts the task. The
  // barrier guards it too, because making a task takes memory.
  const absl::Status posted = host.barrier().Run(rpc, [&] {
    const auto task = [=, &host, work = std::move(work)] {
      const jobs::Wanted wanted = [=, &host] {
        return IsWanted(*context, host);
      };
      // Finish is the last step: gRPC may free context, request and response
      // before Finish returns.
      reactor->Finish(ToGrpc(host.barrier().Run(rpc, [&] {
        const absl::Status still = wanted();
        return still.ok() ? work(wanted) : still;
      })));
    };
    return host.Post(task) ? absl::OkStatus() : Busy(rpc);
  });
  if (!posted.ok()) reactor->Finish(ToGrpc(posted));
  return reactor;
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 CallHost& host, const char* rpc,
                                 std::function<absl::Status()> work) {
  return Answer(
      context, host, rpc,
      [work = std::move(work)](const jobs::Wanted&) { return work(); });
}

}  // namespace mpsd::rpc
