// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_calls.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/host_state.h"
#include "server/rpc/public_part.h"
#include "server/rpc/seen_blobs.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {

namespace {

void FillWholeJob(jobs::JobReader& reader, const jobs::Job& job, v1::Job& out) {
  ToProto(job, out);
  if (jobs::IsFinal(job.state)) return;
  const jobs::Pause pause = reader.PauseOf(job.id);
  if (!pause.reasons.empty()) ToProto(pause, *out.mutable_pause());
  out.set_hold(ValidUtf8(reader.HoldOf(job.id)));
  if (job.state != jobs::State::kQueued) return;
  // The job may have left the queue since its row was read; it then has no
  // position.
  const std::optional<int32_t> position = reader.QueuePosition(job.id);
  if (position.has_value()) out.set_queue_position(*position);
}

// `why` the row cannot be read; it may quote the row.
absl::Status WhyNot(jobs::JobReader& reader, const access::Rights& rights,
                    const std::string& id, const absl::Status& why) {
  if (absl::IsNotFound(why) || !rights.sees_own_alone()) return why;
  const absl::StatusOr<std::string> owner = reader.OwnerOf(id);
  if (owner.ok() && rights.MayRead(*owner)) return why;
  return absl::Status(why.code(),
                      absl::StrCat("job ", id, " cannot be read now"));
}

// The owner of a job is its submitter.
absl::Status CheckOwnerIs(const std::string& user, const std::string& named) {
  if (named.empty() || named == user) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "owner: '", base::Quotable(named), "' is not you (", user,
      "): a job is owned by who submits it; leave the field out, as mpsctl "
      "does since it has logins"));
}

}  // namespace

void FillJob(jobs::JobReader& reader, const access::Rights& rights,
             const jobs::Job& job, v1::Job& out) {
  FillWholeJob(reader, job, out);
  if (!rights.MayRead(job.owner)) KeepPublicPart(out);
}

absl::StatusOr<jobs::SubmitRequest> SubmissionOf(
    jobs::JobReader& reader, jobs::UserLedger* ledger,
    const v1::SubmitRequest& request, const access::Rights& rights) {
  const std::string& user = rights.caller().user;
  absl::Status checked = CheckSubmit(request);
  if (checked.ok()) checked = CheckOwnerIs(user, request.owner());
  if (!checked.ok()) return checked;
  jobs::SubmitRequest submission = FromProto(request);
  submission.owner = user;
  if (!rights.sees_own_alone()) return submission;
  submission.may_read_job = [&reader, rights](const std::string& job_id) {
    const absl::StatusOr<std::string> owner = reader.OwnerOf(job_id);
    return owner.ok() && rights.MayRead(*owner);
  };
  submission.may_use_blob = [ledger, rights](const std::string& sha256) {
    return SeenBlobs::MayUse(ledger, rights, sha256);
  };
  return submission;
}

absl::Status MakeSubmission(jobs::JobReader& reader, jobs::UserLedger* ledger,
                            const v1::SubmitRequest& request, const Call& call,
                            jobs::SubmitRequest& submission) {
  ASSIGN_OR_RETURN(jobs::SubmitRequest checked,
                   SubmissionOf(reader, ledger, request, call.rights));
  submission = std::move(checked);
  submission.limits = call.limits;
  submission.wanted = call.wanted;
  return absl::OkStatus();
}

absl::Status Submit(jobs::JobManager& manager, jobs::JobReader& reader,
                    jobs::UserLedger* ledger, const v1::SubmitRequest& request,
                    Call& call, v1::SubmitResponse& response) {
  jobs::SubmitRequest submission;
  RETURN_IF_ERROR(MakeSubmission(reader, ledger, request, call, submission));
  ASSIGN_OR_RETURN(jobs::SubmitResult result, manager.Submit(submission));
  call.made_job_id = result.job.id;
  FillJob(reader, call.rights, result.job, *response.mutable_job());
  response.set_existed(result.existed);
  return absl::OkStatus();
}

absl::Status GetJob(jobs::JobReader& reader, const access::Rights& rights,
                    const v1::GetJobRequest& request, v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  absl::StatusOr<jobs::Job> job = reader.Get(request.id());
  if (!job.ok()) return WhyNot(reader, rights, request.id(), job.status());
  FillJob(reader, rights, *job, response);
  return absl::OkStatus();
}

absl::Status CancelJob(jobs::JobManager& manager, jobs::JobReader& reader,
                       const v1::CancelRequest& request, const Call& call,
                       v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(jobs::Job job, manager.Cancel(request.id(), request.now()));
  FillJob(reader, call.rights, job, response);
  return absl::OkStatus();
}

absl::Status PinJob(jobs::JobManager& manager, jobs::JobReader& reader,
                    const std::string& id, bool pinned, const Call& call,
                    v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", id));
  ASSIGN_OR_RETURN(jobs::Job job, manager.SetPinned(id, pinned));
  FillJob(reader, call.rights, job, response);
  return absl::OkStatus();
}

absl::Status ListCheckpoints(jobs::JobReader& reader,
                             const v1::CheckpointsRequest& request,
                             v1::CheckpointsResponse& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(std::vector<jobs::Checkpoint> checkpoints,
                   reader.Checkpoints(request.id()));
  for (const jobs::Checkpoint& checkpoint : checkpoints) {
    ToProto(checkpoint, *response.add_checkpoints());
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
