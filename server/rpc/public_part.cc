// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/public_part.h"

#include <utility>

namespace mpsd::rpc {

// Copies what is public instead of clearing what is private, so that a field
// added later is private by default.
void KeepPublicPart(v1::Job& job) {
  v1::Job shown;
  shown.set_id(std::move(*job.mutable_id()));
  shown.set_state(job.state());
  shown.set_cancel_requested(job.cancel_requested());
  shown.set_owner(std::move(*job.mutable_owner()));
  shown.set_priority(job.priority());
  shown.set_kind(job.kind());
  shown.set_attempt(job.attempt());
  shown.set_device_seconds(job.device_seconds());
  if (job.has_create_time()) *shown.mutable_create_time() = job.create_time();
  if (job.has_start_time()) *shown.mutable_start_time() = job.start_time();
  if (job.has_end_time()) *shown.mutable_end_time() = job.end_time();
  if (job.has_not_before()) *shown.mutable_not_before() = job.not_before();
  if (job.has_queue_position()) {
    shown.set_queue_position(job.queue_position());
  }
  if (job.has_pause()) *shown.mutable_pause() = job.pause();
  if (job.has_progress()) {
    v1::Progress& progress = *shown.mutable_progress();
    progress.set_step(job.progress().step());
    progress.set_total_steps(job.progress().total_steps());
    progress.set_eta_seconds(job.progress().eta_seconds());
  }
  job.Swap(&shown);
}

}  // namespace mpsd::rpc
