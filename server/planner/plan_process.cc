// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/status_macros.h"
#include "server/planner/plan_maker.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::planner {
namespace {

using supervisor::SpawnedProcess;
using supervisor::UniqueFd;

constexpr int kNapMilliseconds = 100;
constexpr size_t kLastWords = 4096;  // of its stderr, that an error quotes
// After its last line, a process has this long to end.
constexpr absl::Duration kExitGrace = absl::Seconds(2);

struct Pipe {
  UniqueFd reading, writing;

  absl::Status Open() {
    int ends[2];
    if (pipe(ends) != 0) return base::ErrnoStatus(errno, "pipe");
    reading.reset(ends[0]);
    writing.reset(ends[1]);
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return absl::OkStatus();
  }
};

// Both outputs of the process, read as they come, so that neither pipe blocks
// it and its output cannot fill the disk or the memory.
class Outputs {
 public:
  Outputs(UniqueFd out, UniqueFd error, PlanLines& lines)
      : out_(std::move(out)), error_(std::move(error)), lines_(lines) {}

  // Waits for output, at most kNapMilliseconds, and reads it.
  absl::Status Listen() {
    pollfd fds[] = {{out_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}};
    if (poll(fds, 2, kNapMilliseconds) <= 0) return absl::OkStatus();
    if (fds[1].revents != 0) ReadError();
    return fds[0].revents != 0 ? ReadOut() : absl::OkStatus();
  }
  // Reads what is left in the pipes, once the process has ended.
  absl::Status Finish() {
    absl::Status read;
    while (read.ok() && out_.valid() && got_) read = ReadOut();
    for (got_ = true; error_.valid() && got_;) ReadError();
    return read;
  }
  // The process' last stderr output, human-readable.
  std::string LastWords() const {
    return base::Printable(words_, base::Breaks::kKeep);
  }

 private:
  absl::Status ReadOut() {
    const std::string_view bytes = Read(out_);
    return bytes.empty() ? absl::OkStatus() : lines_.Take(bytes);
  }
  void ReadError() {
    words_.append(Read(error_));
    if (words_.size() > kLastWords) {
      words_.erase(0, words_.size() - kLastWords);
    }
  }
  std::string_view Read(UniqueFd& from) {
    const ssize_t got = read(from.get(), bytes_, sizeof(bytes_));
    if (got == 0) from.reset();
    got_ = got > 0;
    return {bytes_, got_ ? static_cast<size_t>(got) : 0};
  }

  UniqueFd out_, error_;
  PlanLines& lines_;
  char bytes_[64 << 10];
  bool got_ = true;  // whether the last read brought something
  std::string words_;
};

absl::Status HowItEnded(int status, const std::string& last_words) {
  std::string text = "the process that plans (mpsd-worker --plan) ";
  if (WIFSIGNALED(status)) {
    absl::StrAppend(&text, "crashed with signal ", WTERMSIG(status));
  } else {
    absl::StrAppend(&text, "ended without a plan, exit status ",
                    WEXITSTATUS(status));
  }
  if (!last_words.empty()) absl::StrAppend(&text, "; it printed: ", last_words);
  return absl::InternalError(text);
}

absl::Status TookTooLong(absl::Duration limit) {
  return absl::DeadlineExceededError(absl::StrCat(
      "the plan took longer than ", absl::FormatDuration(limit),
      " and was abandoned: plan with fewer rows (dataset.max_train_samples)"));
}

}  // namespace

absl::StatusOr<std::string> RunPlanProcess(
    const PlanCommand& command,
    const std::function<void(std::string)>& on_stage,
    const std::function<absl::Status()>& wanted) {
  Pipe out, error;
  absl::Status opened = out.Open();
  if (opened.ok()) opened = error.Open();
  if (!opened.ok()) return opened;
  SpawnedProcess::Options spawn;
  spawn.program = command.program;
  spawn.args = command.args;
  spawn.environment = command.environment;
  spawn.fds[STDOUT_FILENO] = std::move(out.writing);
  spawn.fds[STDERR_FILENO] = std::move(error.writing);
  ASSIGN_OR_RETURN(std::unique_ptr<SpawnedProcess> process,
                   SpawnedProcess::Spawn(std::move(spawn)));

  PlanLines lines(on_stage);
  auto outputs = std::make_unique<Outputs>(std::move(out.reading),
                                           std::move(error.reading), lines);
  const absl::Duration deadline = base::AwakeTime() + command.limit;
  absl::Duration exit_deadline = absl::InfiniteDuration();
  std::optional<int> status;
  while (!status) {
    // Each return destroys the process, which kills its group.
    RETURN_IF_ERROR(outputs->Listen());
    RETURN_IF_ERROR(wanted());
    const absl::Duration now = base::AwakeTime();
    if (now >= deadline) return TookTooLong(command.limit);
    if (lines.done() && exit_deadline == absl::InfiniteDuration()) {
      exit_deadline = now + kExitGrace;
    }
    status = now >= exit_deadline ? process->Kill() : process->Poll();
  }
  RETURN_IF_ERROR(outputs->Finish());
  if (!lines.done()) return HowItEnded(*status, outputs->LastWords());
  return lines.Result();
}

}  // namespace mpsd::planner
