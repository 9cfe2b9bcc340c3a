// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_board.h"

#include "server/jobs/job_id.h"
#include "server/jobs/request_file.h"

namespace mpsd::jobs {
namespace {

constexpr int kMaxEvents = 1000;

}  // namespace

absl::StatusOr<std::vector<Checkpoint>> JobBoard::Checkpoints(
    const std::string& id) {
  absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok()) return job.status();
  return store_.Checkpoints(id);
}

absl::StatusOr<SubmitRequest> JobBoard::RequestOf(const std::string& id) {
  absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok()) return job.status();
  return RequestFile::Read(files_.Folder(id));
}

absl::StatusOr<std::vector<Event>> JobBoard::Events(const std::string& id,
                                                    int64_t after) {
  absl::StatusOr<std::vector<Event>> events =
      store_.Events(id, after, kMaxEvents);
  if (events.ok() && events->empty()) {
    if (absl::StatusOr<Job> job = store_.Get(id); !job.ok()) {
      return job.status();
    }
  }
  return events;
}

std::string JobBoard::LogPath(const std::string& id) const {
  return IsJobId(id) ? files_.LogPath(id) : "";
}

std::string JobBoard::JobFolder(const std::string& id) const {
  return IsJobId(id) ? files_.Folder(id) : "";
}

std::string JobBoard::RunFolder(const std::string& id) const {
  return IsJobId(id) ? files_.OutputDir(id) : "";
}

}  // namespace mpsd::jobs
