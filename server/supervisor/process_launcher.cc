// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/process_launcher.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/wire/messages.h"
#include "server/supervisor/spawned_process.h"
#include "server/supervisor/worker_session.h"

namespace mpsd::supervisor {
namespace {

constexpr int kLeaseFd = 4, kDeviceLockFd = 5;

struct Stream {
  UniqueFd ours, theirs;
};

absl::StatusOr<Stream> MakeStream() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    return base::ErrnoStatus(errno, "socketpair");
  }
  for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  return Stream{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  UniqueFd log(
      open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!log.valid()) return base::ErrnoStatus(errno, path);
  return log;
}

wire::JobKind WireKind(jobs::JobKind kind) {
  switch (kind) {
    case jobs::JobKind::kTraining:
      return wire::JobKind::kTraining;
    case jobs::JobKind::kProbe:
      return wire::JobKind::kProbe;
    case jobs::JobKind::kBatchSweep:
      return wire::JobKind::kBatchSweep;
    case jobs::JobKind::kDeviceComparison:
      return wire::JobKind::kDeviceComparison;
    case jobs::JobKind::kProfile:
      return wire::JobKind::kProfile;
    case jobs::JobKind::kSmoke:
      return wire::JobKind::kSmoke;
  }
  return wire::JobKind::kTraining;
}

std::string FolderOf(const std::string& path) {
  return std::filesystem::path(path).parent_path();
}

// A duplicate of the log's descriptor, for fd 1 in addition to fd 2.
absl::StatusOr<UniqueFd> Duplicate(const UniqueFd& fd) {
  UniqueFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return base::ErrnoStatus(errno, "fcntl");
  return copy;
}

}  // namespace

ProcessLauncher::ProcessLauncher(Options options, const base::Clock& clock)
    : options_(std::move(options)),
      lease_(options_.lease_path, options_.orphan_patience, clock),
      device_lock_(options_.device_lock, options_.log) {
  TemporaryFolder::RemoveAll(options_.temporary_dir);
}

absl::Status ProcessLauncher::Ready() {
  // A worker of an earlier daemon holds both locks. Acquire the lease first,
  // because its error names that worker.
  const absl::StatusOr<UniqueFd> lease = lease_.Acquire();
  return lease.ok() ? device_lock_.Acquire().status() : lease.status();
}

absl::StatusOr<std::unique_ptr<jobs::Worker>> ProcessLauncher::Launch(
    const jobs::LaunchRequest& request, jobs::WorkerListener& listener) {
  ASSIGN_OR_RETURN(UniqueFd lease, lease_.Acquire());
  ASSIGN_OR_RETURN(UniqueFd lease_of_worker, Duplicate(lease));
  ASSIGN_OR_RETURN(UniqueFd device_lock, device_lock_.Acquire());
  ASSIGN_OR_RETURN(Stream stream, MakeStream());
  ASSIGN_OR_RETURN(UniqueFd out, OpenLog(request.log_path));
  ASSIGN_OR_RETURN(UniqueFd error, Duplicate(out));
  ASSIGN_OR_RETURN(
      std::unique_ptr<TemporaryFolder> temporary,
      TemporaryFolder::Create(options_.temporary_dir, request.job_id));

  WorkerSession::Options session;
  session.start = {request.job_id,         request.spec_path,
                   request.output_dir,     options_.read_roots,
                   WireKind(request.kind), request.study};
  if (!options_.read_roots.empty()) {
    std::vector<std::string>& roots = session.start.read_roots;
    roots.push_back(FolderOf(request.spec_path));
    roots.insert(roots.end(), request.results_read.begin(),
                 request.results_read.end());
  }
  session.hang_timeout = request.hang_timeout;
  session.slowest_step = request.slowest_step;
  session.exit_grace = options_.exit_grace;
  session.awake_time = options_.awake_time;
  session.log_path = request.log_path;
  session.temporary_folder = std::move(temporary);
  session.log_start = lseek(out.get(), 0, SEEK_END);

  SpawnedProcess::Options spawn;
  spawn.program = options_.worker_path;
  spawn.environment =
      host::WorkerEnvironment(options_.environment, request.allow_cpu_fallback);
  spawn.environment["TMPDIR"] = session.temporary_folder->path();
  spawn.fds[STDOUT_FILENO] = std::move(out);
  spawn.fds[STDERR_FILENO] = std::move(error);
  spawn.fds[wire::kWorkerFd] = std::move(stream.theirs);
  spawn.fds[kLeaseFd] = std::move(lease_of_worker);
  if (device_lock.valid()) spawn.fds[kDeviceLockFd] = std::move(device_lock);
  ASSIGN_OR_RETURN(std::unique_ptr<SpawnedProcess> process,
                   SpawnedProcess::Spawn(std::move(spawn)));
  RETURN_IF_ERROR(WorkerLease::Record(lease, process->pid()));
  return WorkerSession::Create(std::move(session), std::move(process),
                               std::move(stream.ours), listener);
}

}  // namespace mpsd::supervisor
