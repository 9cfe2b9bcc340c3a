// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/gates_run.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/file.h"
#include "server/supervisor/spawned_process.h"
#include "server/supervisor/temporary_folder.h"

namespace mpsd::supervisor {
namespace {

constexpr size_t kMostOutput = 256 << 10;
constexpr absl::Duration kLook = absl::Milliseconds(100);

struct Pipe {
  UniqueFd read, write;
};

// Not pipe2, which a Mac lacks.
absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe(ends) != 0) return base::ErrnoStatus(errno, "pipe");
  for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Takes what the pipe has now, bounded for a worker that never stops; what is
// beyond the most is read and dropped, so that the worker is not held up. False
// once the pipe is at its end.
bool Take(const UniqueFd& pipe, std::string& output) {
  constexpr int kMostReads = 256;
  char piece[4096];
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t n = read(pipe.get(), piece, sizeof piece);
    if (n > 0) {
      const size_t room = kMostOutput - output.size();
      output.append(piece, std::min(room, static_cast<size_t>(n)));
    } else if (n == 0 || errno != EINTR) {
      return n < 0 && errno == EAGAIN;
    }
  }
  return true;
}

void AwaitOutput(const UniqueFd& pipe) {
  pollfd entry = {pipe.get(), POLLIN, 0};
  poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kLook)));
}

}  // namespace

absl::StatusOr<GatesRun> RunGates(const GatesOptions& options,
                                  const std::function<absl::Status()>& wanted) {
  absl::StatusOr<Pipe> pipe = MakePipe();
  if (!pipe.ok()) return pipe.status();
  SpawnedProcess::Options spawn;
  spawn.program = options.worker_path;
  spawn.args = {"--gates"};
  spawn.environment = options.environment;
  std::unique_ptr<TemporaryFolder> temporary;
  if (!options.temporary_dir.empty()) {
    auto made = TemporaryFolder::Create(options.temporary_dir, "gates");
    if (!made.ok()) return made.status();
    temporary = *std::move(made);
    spawn.environment["TMPDIR"] = temporary->path();
  }
  spawn.fds[STDOUT_FILENO] = std::move(pipe->write);
  absl::StatusOr<std::unique_ptr<SpawnedProcess>> process =
      SpawnedProcess::Spawn(std::move(spawn));
  if (!process.ok()) return process.status();
  GatesRun run;
  const absl::Time end = absl::Now() + options.limit;
  bool open = true;
  while (absl::Now() < end) {
    if (open) AwaitOutput(pipe->read);
    run.status = (*process)->WaitFor(open ? absl::ZeroDuration() : kLook);
    if (open) open = Take(pipe->read, run.output);
    // Not at the pipe's end: a child of the worker may hold it open.
    if (run.status) return run;
    if (absl::Status s = wanted(); !s.ok()) return s;
  }
  return run;
}

}  // namespace mpsd::supervisor
