// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/spawned_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/child_wait.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 34)
#define MPSD_HAS_SPAWN_CLOSEFROM 1
#endif
#endif

namespace mpsd::supervisor {

absl::StatusOr<UniqueFd> Duplicate(const UniqueFd& fd) {
  UniqueFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return base::ErrnoStatus(errno, "fcntl");
  return copy;
}

void Unblock(const UniqueFd& fd) { fcntl(fd.get(), F_SETFL, O_NONBLOCK); }

// Not pipe2, which a Mac lacks.
absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe(ends) != 0) return base::ErrnoStatus(errno, "pipe");
  for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

namespace fs = std::filesystem;
namespace {

// An existing folder is only used if it is a folder of this user alone.
absl::Status MakePrivate(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno != EEXIST) return base::ErrnoStatus(errno, folder.string());
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return base::ErrnoStatus(ENOTDIR, folder.string());
  }
  return chmod(folder.c_str(), 0700) == 0
             ? absl::OkStatus()
             : base::ErrnoStatus(errno, folder.string());
}

}  // namespace

absl::StatusOr<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Create(
    const fs::path& parent, const std::string& name) {
  RETURN_IF_ERROR(MakePrivate(parent));
  std::unique_ptr<TemporaryFolder> folder(new TemporaryFolder(parent / name));
  folder->Remove();
  RETURN_IF_ERROR(MakePrivate(folder->path()));
  return folder;
}

void TemporaryFolder::Remove() {
  std::error_code error;
  fs::remove_all(path_, error);
  if (!error) return;
  // A worker may have closed a folder to its own user.
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(path_, ignored))) {
    fs::permissions(path_, fs::perms::owner_all, ignored);
  }
  for (fs::recursive_directory_iterator
           it(path_, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (it->is_symlink(ignored) || !it->is_directory(ignored)) continue;
    fs::permissions(it->path(), fs::perms::owner_all, ignored);
  }
  fs::remove_all(path_, ignored);
}

void TemporaryFolder::RemoveAll(const fs::path& parent) {
  std::error_code error;
  // A worker could have put a link to someone's files here.
  if (!fs::is_directory(fs::symlink_status(parent, error))) return;
  for (fs::directory_iterator it(parent, error), end; !error && it != end;
       it.increment(error)) {
    RemoveLeft(it->path());
  }
}

namespace {

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class Attributes {
 public:
  Attributes() { posix_spawnattr_init(&attributes_); }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// Moves a descriptor above every number that the child uses, so that no dup2 of
// the list overwrites the source of a later dup2, or duplicates a number to
// itself.
absl::Status LiftAbove(int highest, UniqueFd& fd) {
  const int lifted = fcntl(fd.get(), F_DUPFD_CLOEXEC, highest + 1);
  if (lifted < 0) return base::ErrnoStatus(errno, "fcntl(F_DUPFD_CLOEXEC)");
  fd.reset(lifted);
  return absl::OkStatus();
}

absl::Status PlanFds(SpawnedProcess::Options& options, FileActions& actions) {
  const int highest =
      std::max(2, options.fds.empty() ? 2 : options.fds.rbegin()->first);
  for (int fd = 0; fd <= 2; ++fd) {
    if (options.fds.contains(fd)) continue;
    posix_spawn_file_actions_addopen(actions.get(), fd, "/dev/null",
                                     fd == 0 ? O_RDONLY : O_WRONLY, 0);
  }
  for (auto& [child, ours] : options.fds) {
    RETURN_IF_ERROR(LiftAbove(highest, ours));
    posix_spawn_file_actions_adddup2(actions.get(), ours.get(), child);
  }
#ifdef MPSD_HAS_SPAWN_CLOSEFROM
  posix_spawn_file_actions_addclosefrom_np(actions.get(), highest + 1);
#endif
  return absl::OkStatus();
}

// The child gets a group of its own, and every signal unblocked and at its
// default: the daemon blocks some signals and ignores others.
void PlanAttributes(Attributes& attributes) {
  short flags =
      POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
#ifdef POSIX_SPAWN_CLOEXEC_DEFAULT
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
  posix_spawnattr_setflags(attributes.get(), flags);
  posix_spawnattr_setpgroup(attributes.get(), 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(attributes.get(), &none);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD}) {
    sigaddset(&defaults, number);
  }
  posix_spawnattr_setsigdefault(attributes.get(), &defaults);
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SpawnedProcess>> SpawnedProcess::Spawn(
    Options options) {
  FileActions actions;
  RETURN_IF_ERROR(PlanFds(options, actions));
  Attributes attributes;
  PlanAttributes(attributes);

  std::vector<std::string> args = {options.program};
  args.insert(args.end(), options.args.begin(), options.args.end());
  std::vector<std::string> environment;
  environment.reserve(options.environment.size());
  for (const auto& [name, value] : options.environment) {
    environment.push_back(absl::StrCat(name, "=", value));
  }
  pid_t pid = 0;
  const int error = posix_spawn(&pid, options.program.c_str(), actions.get(),
                                attributes.get(), Pointers(args).data(),
                                Pointers(environment).data());
  if (error != 0) return base::ErrnoStatus(error, options.program);
  return std::unique_ptr<SpawnedProcess>(new SpawnedProcess(pid));
}

SpawnedProcess::~SpawnedProcess() { Kill(); }

void SpawnedProcess::Signal(int number) {
  absl::MutexLock lock(&mutex_);
  if (!status_) kill(-pid_, number);
}

std::optional<int> SpawnedProcess::Poll() {
  absl::MutexLock lock(&mutex_);
  if (!status_) status_ = base::ReapIfEnded(pid_);
  return status_;
}

int SpawnedProcess::Wait() {
  const std::optional<int> status = WaitFor(absl::InfiniteDuration());
  base::Check(status.has_value(), "a wait without end has a result");
  return *status;
}

std::optional<int> SpawnedProcess::WaitFor(absl::Duration timeout) {
  return base::AwaitEnd([this] { return Poll(); }, timeout);
}

int SpawnedProcess::TerminateOrKill(absl::Duration grace) {
  Signal(SIGTERM);
  if (std::optional<int> status = WaitFor(grace)) return *status;
  return Kill();
}

int SpawnedProcess::Kill() {
  Signal(SIGKILL);
  return Wait();
}

namespace {

constexpr int kNapMilliseconds = 50;
// The most of a turn's time that counts to the limit: after a longer one, this
// process was suspended.
constexpr absl::Duration kLongestTurn = absl::Milliseconds(250);
// What a program that has ended left in its pipes, and what its children write
// without end.
constexpr int kMostLastReads = 256;

// Reads what a pipe has now; false for nothing. `from` is closed at its end.
template <typename Take>
bool ReadSome(UniqueFd& from, const Take& take) {
  if (!from.valid()) return false;
  char bytes[16 << 10];
  const ssize_t got = read(from.get(), bytes, sizeof(bytes));
  if (got == 0) from.reset();
  if (got <= 0) return false;
  take(std::string_view(bytes, static_cast<size_t>(got)));
  return true;
}

// Writes what a pipe has room for now; closes it after that. The program need
// not read its input.
void WriteSome(UniqueFd& to, std::string_view& input) {
  if (!to.valid()) return;
  const ssize_t written = write(to.get(), input.data(), input.size());
  if (written > 0) input.remove_prefix(static_cast<size_t>(written));
  if (input.empty() || (written < 0 && errno != EAGAIN && errno != EINTR)) {
    to.reset();
  }
}

}  // namespace

absl::StatusOr<int> RunToEnd(SpawnedProcess::Options options,
                             const Exchange& exchange) {
  ASSIGN_OR_RETURN(Pipe in, MakePipe());
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  Pipe error;
  if (exchange.error) {
    ASSIGN_OR_RETURN(error, MakePipe());
    Unblock(error.reading);
  } else {
    ASSIGN_OR_RETURN(error.writing, Duplicate(out.writing));
  }
  Unblock(in.writing);
  Unblock(out.reading);
  options.fds[STDIN_FILENO] = std::move(in.reading);
  options.fds[STDOUT_FILENO] = std::move(out.writing);
  options.fds[STDERR_FILENO] = std::move(error.writing);
  ASSIGN_OR_RETURN(std::unique_ptr<SpawnedProcess> process,
                   SpawnedProcess::Spawn(std::move(options)));
  absl::Duration left = exchange.limit, before = base::AwakeTime();
  std::string_view input = exchange.input;
  if (input.empty()) in.writing.reset();
  for (int last_reads = 0;;) {
    // Before the reads, which thus get what the program wrote until its end.
    const std::optional<int> status = process->Poll();
    pollfd fds[] = {{in.writing.get(), POLLOUT, 0},
                    {out.reading.get(), POLLIN, 0},
                    {error.reading.get(), POLLIN, 0}};
    poll(fds, 3, status ? 0 : kNapMilliseconds);
    if (fds[0].revents != 0) WriteSome(in.writing, input);
    absl::Status taken;
    const bool got_out = ReadSome(out.reading, [&](std::string_view bytes) {
      taken = exchange.out(bytes);
    });
    RETURN_IF_ERROR(taken);
    const bool got_error = ReadSome(error.reading, exchange.error);
    if (!status) {
      const absl::Duration now = base::AwakeTime();
      left -= std::min(now - std::exchange(before, now), kLongestTurn);
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError("the program ran too long");
      }
      RETURN_IF_ERROR(exchange.wanted());
    } else if ((!got_out && !got_error) || ++last_reads == kMostLastReads) {
      return *status;
    }
  }
}

}  // namespace mpsd::supervisor
