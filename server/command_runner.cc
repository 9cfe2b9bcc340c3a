// SPDX-License-Identifier: Apache-2.0
#include "server/command_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd {
namespace {

using supervisor::SpawnedProcess;
using supervisor::UniqueFd;

constexpr size_t kMostOutput = 4096;
constexpr int kNapMilliseconds = 20;

bool SigpipeIsIgnored() {
  struct sigaction action;
  return sigaction(SIGPIPE, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

// A pipe; this process keeps the end `ours`, which never blocks.
struct Pipe {
  UniqueFd reading, writing;

  absl::Status Open(UniqueFd Pipe::*ours) {
    int ends[2];
    if (pipe(ends) != 0) return base::ErrnoStatus(errno, "pipe");
    reading.reset(ends[0]);
    writing.reset(ends[1]);
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    fcntl((this->*ours).get(), F_SETFL, O_NONBLOCK);
    return absl::OkStatus();
  }
};

// The data exchange with one program.
class Talk {
 public:
  Talk(std::string_view input, UniqueFd to, UniqueFd from)
      : input_(input), to_(std::move(to)), from_(std::move(from)) {}

  // Transfers available data, then waits at most kNapMilliseconds for more.
  void Go() {
    pollfd fds[] = {{to_.get(), POLLOUT, 0}, {from_.get(), POLLIN, 0}};
    if (poll(fds, 2, kNapMilliseconds) <= 0) return;
    if (fds[0].revents != 0) Write();
    if (fds[1].revents != 0) Read();
  }
  // Reads what the program left in the pipe.
  std::string Finish() {
    for (size_t before = 1; before > 0 && from_.valid();) before = Read();
    return std::move(output_);
  }

 private:
  void Write() {
    const ssize_t written = write(to_.get(), input_.data(), input_.size());
    if (written > 0) input_.remove_prefix(static_cast<size_t>(written));
    // The program need not read its input.
    if (input_.empty() || (written < 0 && errno != EAGAIN && errno != EINTR)) {
      to_.reset();
    }
  }
  // Returns the bytes read: a program with endless output can neither fill the
  // memory nor block on a full pipe.
  size_t Read() {
    char bytes[kMostOutput];
    const ssize_t got = read(from_.get(), bytes, sizeof(bytes));
    if (got == 0) from_.reset();
    if (got <= 0) return 0;
    output_.append(bytes, std::min(static_cast<size_t>(got),
                                   kMostOutput - output_.size()));
    return output_.size() < kMostOutput ? static_cast<size_t>(got) : 0;
  }

  std::string_view input_;
  UniqueFd to_, from_;
  std::string output_;
};

}  // namespace

absl::StatusOr<notify::CommandEnd> RunCommand(
    const notify::CommandCall& call, const std::atomic<bool>& interrupted) {
  base::Check(SigpipeIsIgnored(), "the process ignores SIGPIPE");
  Pipe in, out;
  absl::Status opened = in.Open(&Pipe::writing);
  if (opened.ok()) opened = out.Open(&Pipe::reading);
  if (!opened.ok()) return opened;
  UniqueFd error(fcntl(out.writing.get(), F_DUPFD_CLOEXEC, 0));
  if (!error.valid()) return base::ErrnoStatus(errno, "fcntl");

  SpawnedProcess::Options options;
  options.program = call.argv[0];
  options.args.assign(call.argv.begin() + 1, call.argv.end());
  options.environment = call.environment;
  options.fds[STDIN_FILENO] = std::move(in.reading);
  options.fds[STDOUT_FILENO] = std::move(out.writing);
  options.fds[STDERR_FILENO] = std::move(error);
  ASSIGN_OR_RETURN(std::unique_ptr<SpawnedProcess> process,
                   SpawnedProcess::Spawn(std::move(options)));

  Talk talk(call.input, std::move(in.writing), std::move(out.reading));
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + call.timeout;
  notify::CommandEnd end;
  while (true) {
    if (const std::optional<int> status = process->Poll()) {
      end.wait_status = *status;
      break;
    }
    if (interrupted || clock.Monotonic() >= deadline) {
      end.timed_out = true;
      end.wait_status = process->Kill();
      break;
    }
    talk.Go();
  }
  end.output = talk.Finish();
  return end;
}

}  // namespace mpsd
