// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/study_calls.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/read_roots.h"
#include "core/base/small_file.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/sign_off.h"
#include "server/rpc/status.h"
#include "server/rpc/study_codec.h"

namespace mpsd::rpc {
namespace {

// A study's result, read whole.
struct Read {
  jobs::Job job;
  std::string json;  // result.json
  v1::StudyResult result;
};

void ShowSignOff(const SignOff& sign_off, v1::ParityResult& parity) {
  parity.set_accepted_by(ValidUtf8(sign_off.by));
  ToProto(sign_off.time, *parity.mutable_accepted_time());
  parity.set_accepted_reason(ValidUtf8(sign_off.reason));
}

absl::StatusOr<Read> ReadResult(jobs::JobReader& reader,
                                const std::string& id) {
  if (absl::Status s = CheckId("id", id); !s.ok()) return s;
  const absl::StatusOr<jobs::Job> job = reader.Get(id);
  if (!job.ok()) return job.status();
  if (!jobs::IsStudy(job->kind)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id, " trains: `mpsctl show` and `mpsctl report` tell of ",
        "it, and `mpsctl download` gets its result"));
  }
  if (job->state != jobs::State::kSucceeded) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job->id, ", a ", std::string(jobs::Name(job->kind)), ", is ",
        std::string(jobs::Name(job->state)),
        ": it has a result once it has SUCCEEDED"));
  }
  // The worker wrote it: a link of its making leads nowhere else.
  const base::ReadRoots own({job->output_path});
  const absl::StatusOr<std::string> json = base::ReadSmallFile(
      std::filesystem::path(job->output_path) / "result.json",
      limits::kStudyResultBytes, &own);
  if (!json.ok()) return json.status();
  Read read{*job, *json, {}};
  absl::Status decoded = DecodeStudyResult(job->kind, *json, read.result);
  if (!decoded.ok()) return decoded;
  read.result.set_job_id(job->id);
  if (read.result.has_parity()) {
    // No worker signs off.
    v1::ParityResult& parity = *read.result.mutable_parity();
    parity.clear_accepted_by();
    parity.clear_accepted_time();
    parity.clear_accepted_reason();
  }
  return read;
}

}  // namespace

absl::Status GetStudyResult(jobs::JobReader& reader,
                            const v1::GetStudyResultRequest& request,
                            v1::StudyResult& response) {
  absl::StatusOr<Read> read = ReadResult(reader, request.id());
  if (!read.ok()) return read.status();
  response = std::move(read->result);
  if (!response.has_parity()) return absl::OkStatus();
  if (const auto signed_off = ReadSignOff(read->job.output_path, read->json)) {
    ShowSignOff(*signed_off, *response.mutable_parity());
  }
  return absl::OkStatus();
}

absl::Status AcceptParity(jobs::JobReader& reader, jobs::RecordNotes* notes,
                          const std::string& user, absl::Time now,
                          const v1::AcceptParityRequest& request,
                          v1::StudyResult& response) {
  absl::Status s = CheckText("reason", request.reason(), limits::kReasonBytes);
  if (s.ok() && request.reason().empty()) {
    s = absl::InvalidArgumentError(
        "reason: must say why the differences are acceptable");
  }
  if (!s.ok()) return s;
  absl::StatusOr<Read> read = ReadResult(reader, request.id());
  if (!read.ok()) return read.status();
  if (read->job.kind != jobs::JobKind::kParity) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", read->job.id, " is a ", std::string(jobs::Name(read->job.kind)),
        ": only the result of `mpsctl parity` is signed off"));
  }
  if (read->result.verdict() == v1::VERDICT_PASS) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", read->job.id, " passed: there is nothing to sign off"));
  }
  const std::filesystem::path folder = read->job.output_path;
  std::optional<SignOff> sign_off = ReadSignOff(folder, read->json);
  if (!sign_off || sign_off->by != user ||
      sign_off->reason != request.reason()) {
    sign_off = SignOff{user, now, request.reason(), false};
    s = WriteSignOff(folder, read->json, *sign_off);
    if (!s.ok()) return s;
  }
  if (notes != nullptr && !sign_off->noted) {
    s = notes->Add(read->job.id, user,
                   absl::StrCat("parity signed off: ", request.reason()));
    if (absl::IsResourceExhausted(s)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the sign-off is kept with the result, but not in the logbook: ",
          s.message()));
    }
    // A job of an older mpsd has no record; the sign-off stands without it.
    if (!s.ok() && !absl::IsNotFound(s)) return s;
    sign_off->noted = s.ok();
    s = WriteSignOff(folder, read->json, *sign_off);
    if (!s.ok()) return s;
  }
  response = std::move(read->result);
  ShowSignOff(*sign_off, *response.mutable_parity());
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
