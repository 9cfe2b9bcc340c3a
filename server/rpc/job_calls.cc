// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/job_calls.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/host_state.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {

void FillJob(jobs::JobReader& reader, const jobs::Job& job, v1::Job& out) {
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

absl::Status Submit(jobs::JobManager& manager, jobs::JobReader& reader,
                    const v1::SubmitRequest& request, jobs::Wanted wanted,
                    v1::SubmitResponse& response) {
  absl::Status checked = CheckSubmit(request);
  if (!checked.ok()) return checked;
  jobs::SubmitRequest submission = FromProto(request);
  submission.wanted = std::move(wanted);
  absl::StatusOr<jobs::SubmitResult> result = manager.Submit(submission);
  if (!result.ok()) return result.status();
  FillJob(reader, result->job, *response.mutable_job());
  response.set_existed(result->existed);
  return absl::OkStatus();
}

absl::Status GetJob(jobs::JobReader& reader, const v1::GetJobRequest& request,
                    v1::Job& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  absl::StatusOr<jobs::Job> job = reader.Get(request.id());
  if (!job.ok()) return job.status();
  FillJob(reader, *job, response);
  return absl::OkStatus();
}

absl::Status CancelJob(jobs::JobManager& manager, jobs::JobReader& reader,
                       const v1::CancelRequest& request, v1::Job& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  absl::StatusOr<jobs::Job> job = manager.Cancel(request.id(), request.now());
  if (!job.ok()) return job.status();
  FillJob(reader, *job, response);
  return absl::OkStatus();
}

absl::Status RetryJob(jobs::JobManager& manager, jobs::JobReader& reader,
                      const v1::RetryRequest& request, v1::Job& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  absl::StatusOr<jobs::Job> job = manager.Retry(request.id());
  if (!job.ok()) return job.status();
  FillJob(reader, *job, response);
  return absl::OkStatus();
}

absl::Status ListCheckpoints(jobs::JobReader& reader,
                             const v1::CheckpointsRequest& request,
                             v1::CheckpointsResponse& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  absl::StatusOr<std::vector<jobs::Checkpoint>> checkpoints =
      reader.Checkpoints(request.id());
  if (!checkpoints.ok()) return checkpoints.status();
  for (const jobs::Checkpoint& checkpoint : *checkpoints) {
    ToProto(checkpoint, *response.add_checkpoints());
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
