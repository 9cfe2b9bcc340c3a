// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/gate.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/jobs/job_id.h"
#include "server/rpc/origin.h"

namespace mpsd::rpc {
namespace {

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

absl::StatusOr<access::Rights> Gate::Enter(
    const grpc::CallbackServerContext& context, const Asked& asked) const {
  return Enter(options_.identify(context), Stranger(context), asked);
}

absl::StatusOr<access::Rights> Gate::Enter(
    absl::StatusOr<access::Caller> caller, const access::Caller& stranger,
    const Asked& asked) const {
  if (!caller.ok()) return Refuse(stranger, asked, caller.status());
  absl::Status may = access::CheckRole(asked.method.rule(), *caller);
  if (!may.ok()) return Refuse(*caller, asked, std::move(may));
  return access::Rights(*std::move(caller), options_.private_jobs);
}

absl::StatusOr<access::Rights> Gate::EnterStream(
    const grpc::CallbackServerContext& context, const Asked& asked,
    StreamHost& host, ClosableStream& stream) const {
  absl::StatusOr<access::Rights> rights = Enter(context, asked);
  if (!rights.ok()) return rights;
  absl::Status may = host.Add(stream, rights->caller());
  if (may.ok()) may = options_.identify(context).status();
  if (!may.ok()) return may;
  return rights;
}

absl::Status Gate::CheckJob(const Asked& asked,
                            const access::Rights& rights) const {
  const access::Rule& rule = asked.method.rule();
  const bool of_a_job = rule.concerns == access::Concerns::kReadableJob ||
                        rule.concerns == access::Concerns::kOwnJob;
  // Text that is not a job's id names no job: the handler reports the error.
  if (!of_a_job || !jobs::IsJobId(asked.job_id)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string owner, jobs_.OwnerOf(asked.job_id));
  absl::Status may = access::CheckOwner(rule, rights, asked.job_id, owner);
  if (may.ok()) return may;
  return Refuse(rights.caller(), asked, std::move(may));
}

absl::StatusOr<int64_t> Gate::Begin(const Asked& asked,
                                    const access::Rights& rights) const {
  RETURN_IF_ERROR(CheckJob(asked, rights));
  if (options_.audit == nullptr || !asked.method.rule().audited) return 0;
  const access::Request note = ToNote(rights.caller(), asked);
  absl::StatusOr<int64_t> entry = options_.audit->Begin(note);
  if (entry.ok() ||
      !(asked.needs_no_room || asked.method.rule().needs_no_room)) {
    return entry;
  }
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
  if (options_.audit != nullptr && asked.method.rule().audited) {
    options_.audit->Refused(ToNote(caller, asked), why);
  }
  return why;
}

}  // namespace mpsd::rpc
