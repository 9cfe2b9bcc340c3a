// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/process_launcher.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/wire/messages.h"
#include "server/supervisor/worker_session.h"

namespace mpsd::supervisor {
namespace {

// O_NONBLOCK: opening a pipe without a writer would block.
constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

}  // namespace

DeviceLock::DeviceLock(std::string path,
                       std::function<void(const std::string&)> log)
    : path_(std::move(path)), log_(std::move(log)) {}

absl::StatusOr<UniqueFd> DeviceLock::Acquire() {
  if (path_.empty()) return UniqueFd();
  absl::StatusOr<UniqueFd> fd = Open();
  if (!fd.ok()) {
    if (!std::exchange(said_, true)) {
      log_(absl::StrCat(
          "nothing keeps other daemons off the GPU: ", fd.status().message(),
          "; name another file with --device-lock, or off"));
    }
    return UniqueFd();
  }
  said_ = false;
  if (flock(fd->get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return base::ErrnoStatus(errno, path_);
  return absl::UnavailableError(absl::StrCat(
      "another mpsd uses the GPU (it holds ", path_,
      "; for another device of this machine name another --device-lock)"));
}

absl::StatusOr<UniqueFd> DeviceLock::Open() const {
  // Without O_CREAT at first: in a sticky folder Linux refuses O_CREAT for
  // another user's file.
  UniqueFd fd(open(path_.c_str(), kFlags));
  if (!fd.valid() && errno == ENOENT) {
    fd.reset(open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0444));
    // Lets every user open and lock the file, whatever the umask.
    if (fd.valid()) fchmod(fd.get(), 0444);
    if (!fd.valid() && errno == EEXIST) fd.reset(open(path_.c_str(), kFlags));
  }
  if (!fd.valid()) return base::ErrnoStatus(errno, path_);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return base::ErrnoStatus(errno, path_);
  if (S_ISREG(info.st_mode)) return fd;
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": not a regular file"));
}

namespace {

// The pid in the file; 0 if the file contains none.
pid_t RecordedPid(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  int32_t pid = 0;
  if (n <= 0 || !absl::SimpleAtoi(text, &pid) || pid <= 1) return 0;
  return pid;
}

}  // namespace

WorkerLease::WorkerLease(std::string path, absl::Duration patience,
                         const base::Clock& clock)
    : path_(std::move(path)), patience_(patience), clock_(clock) {}

absl::StatusOr<UniqueFd> WorkerLease::Acquire() {
  UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return base::ErrnoStatus(errno, path_);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return base::ErrnoStatus(errno, path_);
    return Refuse(fd.get());
  }
  refused_since_.reset();
  if (ftruncate(fd.get(), 0) != 0) return base::ErrnoStatus(errno, path_);
  return fd;
}

absl::Status WorkerLease::Refuse(int fd) {
  const absl::Duration now = clock_.Monotonic();
  if (!refused_since_) refused_since_ = now;
  const pid_t pid = RecordedPid(fd);
  std::string message = "a worker of an earlier mpsd still runs";
  if (pid > 0) absl::StrAppend(&message, ", pid ", pid);
  if (pid > 0 && now - *refused_since_ >= patience_) {
    // The pid cannot have been reused: the process that holds the lock is
    // alive, and the file names that process.
    kill(-pid, SIGKILL);
    absl::StrAppend(&message, "; it took too long and was killed");
  }
  return absl::UnavailableError(message);
}

absl::Status WorkerLease::Record(const UniqueFd& lease, pid_t pid) {
  base::Check(lease.valid() && pid > 0, "a running worker has the lease");
  const std::string text = absl::StrCat(pid, "\n");
  if (pwrite(lease.get(), text.data(), text.size(), 0) < 0) {
    return base::ErrnoStatus(errno, "the worker lease");
  }
  return absl::OkStatus();
}

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
    case jobs::JobKind::kGenerate:
      return wire::JobKind::kGenerate;
  }
  return wire::JobKind::kTraining;
}

std::string FolderOf(const std::string& path) {
  return std::filesystem::path(path).parent_path();
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
                   WireKind(request.kind), request.study,
                   options_.closed_roots};
  std::vector<std::string>& roots = session.start.read_roots;
  roots.push_back(FolderOf(request.spec_path));
  roots.insert(roots.end(), request.results_read.begin(),
               request.results_read.end());
  session.hang_timeout = request.hang_timeout;
  session.slowest_step = request.slowest_step;
  session.exit_grace = options_.exit_grace;
  session.awake_time = options_.awake_time;
  session.log_path = request.log_path;
  session.model_folder = request.model_folder;
  session.model_name = request.model_name;
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

namespace {

constexpr size_t kMostOutput = 256 << 10;

}  // namespace

absl::StatusOr<GatesRun> RunGates(const GatesOptions& options,
                                  const std::function<absl::Status()>& wanted) {
  SpawnedProcess::Options spawn;
  spawn.program = options.worker_path;
  spawn.args = {"--gates"};
  spawn.environment = options.environment;
  std::unique_ptr<TemporaryFolder> temporary;
  if (!options.temporary_dir.empty()) {
    ASSIGN_OR_RETURN(auto made,
                     TemporaryFolder::Create(options.temporary_dir, "gates"));
    temporary = std::move(made);
    spawn.environment["TMPDIR"] = temporary->path();
  }
  GatesRun run;
  Exchange exchange;
  // Bounded for a worker that never stops; excess output is dropped.
  exchange.out = [&](std::string_view bytes) {
    run.output.append(bytes.substr(0, kMostOutput - run.output.size()));
    return absl::OkStatus();
  };
  exchange.error = [](std::string_view) {};
  exchange.wanted = wanted;
  exchange.limit = options.limit;
  const absl::StatusOr<int> status = RunToEnd(std::move(spawn), exchange);
  if (absl::IsDeadlineExceeded(status.status())) return run;
  ASSIGN_OR_RETURN(run.status, status);
  return run;
}

std::optional<Verdict> ReadVerdict(const std::string& path) {
  constexpr size_t kLargest = 8 << 20;
  const auto text = base::ReadSmallFile(path, kLargest);
  struct stat file;
  if (!text.ok() || stat(path.c_str(), &file) != 0) return std::nullopt;
  const auto tree = base::ParseTree<nlohmann::json>(*text);
  if (!tree.is_object()) return std::nullopt;
  const auto text_in = [](const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string()
               ? found->get<std::string>()
               : "";
  };
  Verdict verdict;
  verdict.summary = text_in(tree, "summary");
  verdict.time = absl::FromTimeT(file.st_mtime);
  const auto passed = tree.find("passed");
  if (passed != tree.end() && passed->is_boolean()) verdict.passed = *passed;
  const auto identity = tree.find("identity");
  if (identity != tree.end() && identity->is_object()) {
    verdict.device = text_in(*identity, "device");
  }
  return verdict;
}

namespace {

absl::Status Running() {
  return absl::UnavailableError(
      "the self-test of the device runs; its table is in its log");
}

}  // namespace

TestedLauncher::TestedLauncher(jobs::WorkerLauncher& inner, Options options)
    : inner_(inner), options_(std::move(options)), verdict_(Running()) {
  thread_ = std::thread([this] { Run(); });
}

TestedLauncher::~TestedLauncher() {
  {
    base::MonitorLock lock(&mutex_);
    stopping_ = true;
    if (process_) process_->Signal(SIGKILL);
  }
  thread_.join();
}

absl::Status TestedLauncher::Ready() {
  {
    base::MonitorLock lock(&mutex_);
    if (!verdict_.ok()) return verdict_;
  }
  return inner_.Ready();
}

TestedLauncher::State TestedLauncher::state() const {
  base::MonitorLock lock(&mutex_);
  return {verdict_, testing_ || asked_};
}

bool TestedLauncher::TestAgain() {
  {
    base::MonitorLock lock(&mutex_);
    if (testing_ || asked_) return false;
    asked_ = true;
    verdict_ = Running();
  }
  options_.on_change();
  return true;
}

void TestedLauncher::Run() {
  bool force = false;
  while (true) {
    const absl::Status verdict = Test(force);
    Conclude(verdict);
    if (!AwaitNext(verdict.ok())) return;
    base::MonitorLock lock(&mutex_);
    force = std::exchange(asked_, false);
    testing_ = true;
  }
}

bool TestedLauncher::AwaitNext(bool passed) {
  base::MonitorLock lock(&mutex_);
  const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || asked_;
  };
  mutex_.AwaitFor(passed ? absl::InfiniteDuration() : options_.retry_interval,
                  due);
  return !stopping_;
}

absl::Status TestedLauncher::Test(bool force) {
  SpawnedProcess* process = nullptr;
  {
    base::MonitorLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("mpsd stops");
    auto spawned = Spawn(force);
    if (!spawned.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the self-test of the device cannot run: ",
                       spawned.status().message(), Advice()));
    }
    process_ = *std::move(spawned);
    process = process_.get();
  }
  const std::optional<int> status = process->WaitFor(options_.limit);
  if (!status) process->Kill();
  {
    base::MonitorLock lock(&mutex_);
    temporary_.reset();
  }
  if (status) return VerdictOf(*status);
  return absl::FailedPreconditionError(
      absl::StrCat("the self-test of the device took longer than ",
                   absl::FormatDuration(options_.limit), " (",
                   options_.log_path, ")", Advice()));
}

std::string TestedLauncher::Advice() const {
  return absl::StrCat(
      "; no job starts. It is tried again every ",
      absl::FormatDuration(options_.retry_interval),
      " and whenever mpsd starts. Close what else uses the GPU or its memory; "
      "`mpsd-worker --selftest` shows it at once; restarting the machine or an "
      "update of macOS or torch may fix it; mpsd --skip-selftest trains "
      "without it");
}

void TestedLauncher::Conclude(const absl::Status& verdict) {
  {
    base::MonitorLock lock(&mutex_);
    testing_ = false;
    if (stopping_) return;
    // A caller may have requested another test meanwhile.
    if (!asked_) verdict_ = verdict;
  }
  if (verdict.ok()) TellPass();
  options_.log(verdict.ok() ? "self-test of the device: passed"
                            : std::string(verdict.message()));
  options_.on_change();
}

// The worker writes the file when it has run the checks, and does not change it
// if an earlier verdict is still valid.
void TestedLauncher::TellPass() const {
  const std::optional<Verdict> verdict = ReadVerdict(options_.verdict_path);
  if (verdict && !verdict->device.empty()) {
    options_.on_pass(verdict->device, verdict->time);
  }
}

absl::StatusOr<std::unique_ptr<SpawnedProcess>> TestedLauncher::Spawn(
    bool force) {
  const int log = open(options_.log_path.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log < 0) return base::ErrnoStatus(errno, options_.log_path);
  UniqueFd out(log);
  ASSIGN_OR_RETURN(UniqueFd error, Duplicate(out));
  SpawnedProcess::Options spawn;
  spawn.program = options_.worker_path;
  spawn.args = {"--selftest", "--verdict", options_.verdict_path};
  if (force) spawn.args.push_back("--force");
  spawn.environment = options_.environment;
  if (!options_.temporary_dir.empty()) {
    ASSIGN_OR_RETURN(auto temporary, TemporaryFolder::Create(
                                         options_.temporary_dir, "selftest"));
    temporary_ = std::move(temporary);
    spawn.environment["TMPDIR"] = temporary_->path();
  }
  spawn.fds[STDOUT_FILENO] = std::move(out);
  spawn.fds[STDERR_FILENO] = std::move(error);
  return SpawnedProcess::Spawn(std::move(spawn));
}

absl::Status TestedLauncher::VerdictOf(int status) const {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  std::string what;
  if (WIFSIGNALED(status)) {
    what = absl::StrCat("crashed with signal ", WTERMSIG(status));
  } else if (WEXITSTATUS(status) == 1) {
    const std::optional<Verdict> verdict = ReadVerdict(options_.verdict_path);
    what = absl::StrCat("failed: ", verdict ? verdict->summary : "");
  } else {
    what = absl::StrCat("could not run, exit status ", WEXITSTATUS(status));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the self-test of the device ", what, " (",
                   options_.log_path, ")", Advice()));
}

}  // namespace mpsd::supervisor
