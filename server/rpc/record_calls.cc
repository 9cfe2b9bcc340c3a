// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/record_calls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"
#include "server/rpc/make_record.h"
#include "server/rpc/check.h"
#include "server/rpc/job_calls.h"

namespace mpsd::rpc {
namespace {

absl::Status Fill(records::JobRecords& records, jobs::JobReader& reader,
                  const access::Rights& rights, const std::string& id,
                  v1::GetRecordResponse& response) {
  RETURN_IF_ERROR(CheckId("id", id));
  absl::StatusOr<v1::JobRecord> record = records.Get(id);
  if (record.ok() && !rights.MayRead(record->owner())) {
    record = absl::NotFoundError(
        absl::StrCat("there is no record of a job ", base::Quotable(id)));
  }
  if (!record.ok()) return record.status();
  const absl::StatusOr<jobs::Job> job = reader.Get(id);
  if (job.ok()) {
    FillJob(reader, rights, *job, *response.mutable_job());
  } else {
    *response.mutable_job() = records::JobOf(*record);
  }
  *response.mutable_record() = *std::move(record);
  return absl::OkStatus();
}

absl::Status CheckNote(const std::string& text) {
  if (text.size() > limits::kJobNoteBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: has ", text.size(), " bytes, at most ",
                     limits::kJobNoteBytes, " are allowed"));
  }
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
  absl::Status status = CheckNote(request.text());
  if (status.ok()) {
    status = Fill(records, reader, rights, request.id(), response);
  }
  if (status.ok()) {
    status = records.past().AddNote(
        request.id(),
        {records.clock().Now(), rights.caller().user, request.text()});
  }
  response.Clear();
  if (!status.ok()) return status;
  return Fill(records, reader, rights, request.id(), response);
}

absl::Status TagJob(records::JobRecords& records, jobs::JobReader& reader,
                    const access::Rights& rights, const v1::TagRequest& request,
                    v1::GetRecordResponse& response) {
  absl::Status status = CheckTags("add", request.add());
  if (status.ok()) status = CheckTags("remove", request.remove());
  if (status.ok() && request.add().empty() && request.remove().empty()) {
    status =
        absl::InvalidArgumentError("add: name a tag to add or one to remove");
  }
  if (status.ok()) {
    status = Fill(records, reader, rights, request.id(), response);
  }
  const std::string owner = response.record().owner();
  if (status.ok() && !rights.MayChange(owner)) {
    status = absl::PermissionDeniedError(absl::StrCat(
        "job ", request.id(), " is ", base::Quotable(owner),
        "'s: only its owner or an admin may tag it; `mpsctl note` adds a note "
        "to any job"));
  }
  if (status.ok()) {
    status = records.past().Tag(
        request.id(), {request.add().begin(), request.add().end()},
        {request.remove().begin(), request.remove().end()});
  }
  response.Clear();
  if (!status.ok()) return status;
  return Fill(records, reader, rights, request.id(), response);
}

}  // namespace mpsd::rpc
