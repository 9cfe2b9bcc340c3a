// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/list_calls.h"
#include "server/rpc/uploads.h"

namespace mpsd::rpc {
namespace {

void FillWholeJob(jobs::JobReader& reader, const jobs::Job& job, v1::Job& out) {
  ToProto(job, out);
  if (jobs::IsFinal(job.state)) return;
  const jobs::Pause pause = reader.PauseOf(job.id);
  if (!pause.reasons.empty()) ToProto(pause, *out.mutable_pause());
  out.set_hold(ValidUtf8(reader.HoldOf(job.id)));
  if (job.state != jobs::State::kQueued) return;
  out.set_data_check_pending(reader.view().AwaitsCheck(job.id));
  // The job may have left the queue since its row was read; it then has no
  // position.
  const std::optional<int32_t> position = reader.QueuePosition(job.id);
  if (position.has_value()) out.set_queue_position(*position);
  out.clear_not_before();
  const std::optional<absl::Time> not_before = reader.NotBefore(job.id);
  if (not_before) ToProto(*not_before, *out.mutable_not_before());
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

absl::StatusOr<jobs::SubmitRequest> SubmissionOf(jobs::JobReader& reader,
                                                 jobs::UserLedger* ledger,
                                                 v1::SubmitRequest& request,
                                                 const access::Rights& rights) {
  const std::string& user = rights.caller().user;
  RETURN_IF_ERROR(CheckSubmit(request));
  RETURN_IF_ERROR(CheckOwnerIs(user, request.owner()));
  jobs::SubmitRequest submission = FromProto(std::move(request));
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

absl::Status Submit(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                    jobs::UserLedger* ledger, v1::SubmitRequest& request,
                    Call& call, v1::SubmitResponse& response) {
  ASSIGN_OR_RETURN(jobs::SubmitRequest submission,
                   SubmissionOf(reader, ledger, request, call.rights));
  submission.limits = call.limits;
  submission.wanted = call.wanted;
  ASSIGN_OR_RETURN(const jobs::SubmitResult result,
                   scheduler.Submit(submission));
  call.made_job_id = result.job.id;
  FillJob(reader, call.rights, result.job, *response.mutable_job());
  response.set_existed(result.existed);
  return absl::OkStatus();
}

absl::Status GetSubmission(jobs::JobReader& reader,
                           const v1::GetSubmissionRequest& request,
                           v1::SubmitRequest& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(const jobs::SubmitRequest submission,
                   reader.RequestOf(request.id()));
  ToProto(submission, response);
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

namespace {

// The requesting user, and the given reason.
std::string By(const Call& call, const std::string& reason) {
  const std::string& user = call.rights.caller().user;
  std::string words =
      absl::StrCat("by ", user.empty() ? "an unnamed user" : user);
  if (!reason.empty()) absl::StrAppend(&words, ": ", reason);
  return words;
}

// Fills in what a change returned.
absl::Status Fill(jobs::JobReader& reader, const Call& call,
                  const absl::StatusOr<jobs::Job>& job, v1::Job& response) {
  if (!job.ok()) return job.status();
  FillJob(reader, call.rights, *job, response);
  return absl::OkStatus();
}

// An admin's top and bottom count among all owners.
absl::StatusOr<jobs::MoveTo> MoveOf(const v1::MoveRequest& request,
                                    const access::Rights& rights) {
  using Where = jobs::MoveTo::Where;
  switch (request.to_case()) {
    case v1::MoveRequest::kTop:
      if (request.top()) return jobs::MoveTo{Where::kTop, 0, rights.is_admin()};
      break;
    case v1::MoveRequest::kBottom:
      if (request.bottom()) {
        return jobs::MoveTo{Where::kBottom, 0, rights.is_admin()};
      }
      break;
    case v1::MoveRequest::kPriority:
      return jobs::MoveTo{Where::kPriority, request.priority(), false};
    case v1::MoveRequest::TO_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "to: set top or bottom to true, or a priority");
}

}  // namespace

absl::Status CancelJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                       const v1::CancelRequest& request, const Call& call,
                       v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  return Fill(reader, call, scheduler.Cancel(request.id(), request.now()),
              response);
}

absl::Status RetryJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                      const v1::RetryRequest& request, const Call& call,
                      v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  return Fill(
      reader, call,
      scheduler.Retry(request.id(), request.from_scratch(), call.limits),
      response);
}

absl::Status PinJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                    const std::string& id, bool pinned, const Call& call,
                    v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", id));
  return Fill(reader, call, scheduler.remover().SetPinned(id, pinned),
              response);
}

absl::Status HoldJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                     const v1::HoldRequest& request, const Call& call,
                     v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  RETURN_IF_ERROR(CheckText("reason", request.reason(), limits::kReasonBytes));
  return Fill(reader, call,
              scheduler.Hold(request.id(), By(call, request.reason())),
              response);
}

absl::Status ReleaseJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                        const v1::ReleaseRequest& request, const Call& call,
                        v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  return Fill(reader, call, scheduler.Release(request.id()), response);
}

absl::Status MoveJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                     const v1::MoveRequest& request, const Call& call,
                     v1::Job& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(const jobs::MoveTo to, MoveOf(request, call.rights));
  return Fill(reader, call, scheduler.Move(request.id(), to, call.limits),
              response);
}

absl::Status DrainQueue(jobs::Scheduler& scheduler,
                        const v1::DrainRequest& request, const Call& call) {
  RETURN_IF_ERROR(CheckText("reason", request.reason(), limits::kReasonBytes));
  return scheduler.DrainQueue(
      absl::StrCat("mpsd is drained ", By(call, request.reason())));
}

absl::Status DeleteJob(jobs::Scheduler& scheduler, jobs::JobReader& reader,
                       const v1::DeleteRequest& request,
                       v1::DeleteResponse& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  if (request.dry_run()) {
    RETURN_IF_ERROR(scheduler.remover().MayDelete(request.id()));
    ASSIGN_OR_RETURN(const jobs::Job job, reader.Get(request.id()));
    response.set_freed_bytes(job.stored_bytes);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(int64_t freed, scheduler.remover().Delete(request.id()));
  response.set_freed_bytes(freed);
  return absl::OkStatus();
}

namespace {

absl::Status Fill(records::JobRecords& records, jobs::JobReader& reader,
                  const access::Rights& rights, const std::string& id,
                  v1::GetRecordResponse& response) {
  RETURN_IF_ERROR(CheckId("id", id));
  ASSIGN_OR_RETURN(v1::JobRecord record, records.Get(id));
  if (!rights.MayRead(record.owner())) {
    return absl::NotFoundError(
        absl::StrCat("there is no record of a job ", base::Quotable(id)));
  }
  const absl::StatusOr<jobs::Job> job = reader.Get(id);
  if (job.ok()) {
    FillJob(reader, rights, *job, *response.mutable_job());
  } else {
    *response.mutable_job() = records::JobOf(record);
  }
  *response.mutable_record() = std::move(record);
  return absl::OkStatus();
}

absl::Status CheckNote(const std::string& text) {
  RETURN_IF_ERROR(CheckLength("text", text, limits::kJobNoteBytes));
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError("text: must not be empty");
  }
  if (!base::IsPrintable(text, base::Breaks::kKeep)) {
    return absl::InvalidArgumentError(
        "text: must not contain control characters other than line breaks and "
        "tabs");
  }
  return absl::OkStatus();
}

bool IsTag(const std::string& tag) {
  return !tag.empty() && tag.size() <= limits::kJobTagBytes &&
         std::all_of(tag.begin(), tag.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  absl::StrContains("._-+/@", static_cast<char>(c));
         });
}

absl::Status CheckTags(
    const char* field,
    const google::protobuf::RepeatedPtrField<std::string>& tags) {
  if (tags.size() > limits::kJobTags) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": has ", tags.size(), " tags, at most ",
                     limits::kJobTags, " are allowed"));
  }
  for (int i = 0; i < tags.size(); ++i) {
    if (IsTag(tags[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field, "[", i, "]: ", base::Quotable(tags[i]), ": must be 1 to ",
        limits::kJobTagBytes, " letters, digits and ._-+/@"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status GetRecord(records::JobRecords& records, jobs::JobReader& reader,
                       const access::Rights& rights,
                       const v1::GetRecordRequest& request,
                       v1::GetRecordResponse& response) {
  return Fill(records, reader, rights, request.id(), response);
}

absl::Status AddNote(records::JobRecords& records, jobs::JobReader& reader,
                     const access::Rights& rights,
                     const v1::AddNoteRequest& request,
                     v1::GetRecordResponse& response) {
  RETURN_IF_ERROR(CheckNote(request.text()));
  v1::GetRecordResponse before;
  RETURN_IF_ERROR(Fill(records, reader, rights, request.id(), before));
  RETURN_IF_ERROR(records.past().AddNote(
      request.id(),
      {records.clock().Now(), rights.caller().user, request.text()}));
  return Fill(records, reader, rights, request.id(), response);
}

absl::Status TagJob(records::JobRecords& records, jobs::JobReader& reader,
                    const access::Rights& rights, const v1::TagRequest& request,
                    v1::GetRecordResponse& response) {
  RETURN_IF_ERROR(CheckTags("add", request.add()));
  RETURN_IF_ERROR(CheckTags("remove", request.remove()));
  if (request.add().empty() && request.remove().empty()) {
    return absl::InvalidArgumentError(
        "add: name a tag to add or one to remove");
  }
  v1::GetRecordResponse before;
  RETURN_IF_ERROR(Fill(records, reader, rights, request.id(), before));
  const std::string& owner = before.record().owner();
  if (!rights.MayChange(owner)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "job ", request.id(), " is ", base::Quotable(owner),
        "'s: only its owner or an admin may tag it; `mpsctl set ID --note` "
        "adds a note to any job"));
  }
  RETURN_IF_ERROR(records.past().Tag(
      request.id(), {request.add().begin(), request.add().end()},
      {request.remove().begin(), request.remove().end()}));
  return Fill(records, reader, rights, request.id(), response);
}

}  // namespace mpsd::rpc
