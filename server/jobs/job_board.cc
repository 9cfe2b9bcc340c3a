// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_board.h"

#include <utility>

#include "server/jobs/job_id.h"

namespace mpsd::jobs {
namespace {

constexpr int kMaxEvents = 1000;

}  // namespace

absl::StatusOr<Job> JobBoard::Get(const std::string& id) {
  return store_.Get(id);
}

absl::StatusOr<std::vector<Job>> JobBoard::List(const ListFilter& filter) {
  return store_.List(filter);
}

absl::StatusOr<std::vector<FoundJob>> JobBoard::FindByIdPart(
    const std::string& part, int limit) {
  return store_.FindByIdPart(part, limit);
}

absl::StatusOr<std::vector<Checkpoint>> JobBoard::Checkpoints(
    const std::string& id) {
  absl::StatusOr<Job> job = store_.Get(id);
  if (!job.ok()) return job.status();
  return store_.Checkpoints(id);
}

std::optional<int32_t> JobBoard::QueuePosition(const std::string& id) {
  return view_.Position(id);
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

int64_t JobBoard::Subscribe(const std::string& id, std::function<void()> wake) {
  return hub_.Subscribe(id, std::move(wake));
}

void JobBoard::Unsubscribe(int64_t token) { hub_.Unsubscribe(token); }

ManagerInfo JobBoard::Info() { return view_.Info(); }

Pause JobBoard::PauseOf(const std::string& id) { return view_.PauseOf(id); }

std::string JobBoard::HoldOf(const std::string& id) { return view_.HoldOf(id); }

std::string JobBoard::LogPath(const std::string& id) const {
  return IsJobId(id) ? files_.LogPath(id) : "";
}

std::string JobBoard::JobFolder(const std::string& id) const {
  return IsJobId(id) ? files_.Folder(id) : "";
}

}  // namespace mpsd::jobs
