// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/tested_launcher.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"

namespace mpsd::supervisor {
namespace {

std::string SummaryIn(const std::string& path) {
  const auto text = base::ReadFile(path);
  if (!text.ok()) return "";
  const auto object = base::ParseTree<nlohmann::json>(*text);
  if (!object.is_object()) return "";
  const auto summary = object.find("summary");
  return summary != object.end() && summary->is_string()
             ? summary->get<std::string>()
             : "";
}

}  // namespace

TestedLauncher::TestedLauncher(jobs::WorkerLauncher& inner, Options options)
    : inner_(inner),
      options_(std::move(options)),
      verdict_(absl::UnavailableError(
          "the self-test of the device runs; its table is in its log")) {
  thread_ = std::thread([this] { Run(); });
}

TestedLauncher::~TestedLauncher() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (process_) process_->Signal(SIGKILL);
  }
  thread_.join();
}

absl::Status TestedLauncher::Ready() {
  {
    absl::MutexLock lock(&mutex_);
    if (!verdict_.ok()) return verdict_;
  }
  return inner_.Ready();
}

void TestedLauncher::Run() {
  while (true) {
    const absl::Status verdict = Test();
    Conclude(verdict);
    absl::MutexLock lock(&mutex_);
    if (verdict.ok() || mutex_.AwaitWithTimeout(absl::Condition(&stopping_),
                                                options_.retry_interval)) {
      return;
    }
  }
}

absl::Status TestedLauncher::Test() {
  SpawnedProcess* process = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("mpsd stops");
    auto spawned = Spawn();
    if (!spawned.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the self-test of the device cannot run: ",
                       spawned.status().message(), Advice()));
    }
    process_ = *std::move(spawned);
    process = process_.get();
  }
  const std::optional<int> status = process->WaitFor(options_.limit);
  if (status) return VerdictOf(*status);
  process->Kill();
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
      "update of macOS or torch may mend it; mpsd --skip-selftest trains "
      "nonetheless");
}

void TestedLauncher::Conclude(const absl::Status& verdict) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    verdict_ = verdict;
  }
  options_.log(verdict.ok() ? "self-test of the device: passed"
                            : std::string(verdict.message()));
  options_.on_change();
}

absl::StatusOr<std::unique_ptr<SpawnedProcess>> TestedLauncher::Spawn() const {
  const int log = open(options_.log_path.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log < 0) return base::ErrnoStatus(errno, options_.log_path);
  UniqueFd out(log);
  UniqueFd error(fcntl(log, F_DUPFD_CLOEXEC, 0));
  if (error.get() < 0) return base::ErrnoStatus(errno, options_.log_path);
  SpawnedProcess::Options spawn;
  spawn.program = options_.worker_path;
  spawn.args = {"--selftest", "--verdict", options_.verdict_path};
  spawn.environment = options_.environment;
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
    what = absl::StrCat("failed: ", SummaryIn(options_.verdict_path));
  } else {
    what = absl::StrCat("could not run, exit status ", WEXITSTATUS(status));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the self-test of the device ", what, " (",
                   options_.log_path, ")", Advice()));
}

}  // namespace mpsd::supervisor
