// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/tested_launcher.h"

#include <fcntl.h>
#include <sys/stat.h>
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

// An object; null where there is none.
nlohmann::json VerdictIn(const std::string& path) {
  const auto text = base::ReadFile(path);
  if (!text.ok()) return nullptr;
  return base::ParseTree<nlohmann::json>(*text);
}

// "" where `object` has no such text.
std::string TextIn(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto text = object.find(name);
  return text != object.end() && text->is_string() ? text->get<std::string>()
                                                   : "";
}

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

TestedLauncher::State TestedLauncher::state() const {
  absl::MutexLock lock(&mutex_);
  return {verdict_, testing_ || asked_};
}

bool TestedLauncher::TestAgain() {
  {
    absl::MutexLock lock(&mutex_);
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
    absl::MutexLock lock(&mutex_);
    force = std::exchange(asked_, false);
    testing_ = true;
  }
}

bool TestedLauncher::AwaitNext(bool passed) {
  absl::MutexLock lock(&mutex_);
  const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || asked_;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&due), passed
                                                     ? absl::InfiniteDuration()
                                                     : options_.retry_interval);
  return !stopping_;
}

absl::Status TestedLauncher::Test(bool force) {
  SpawnedProcess* process = nullptr;
  {
    absl::MutexLock lock(&mutex_);
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
    absl::MutexLock lock(&mutex_);
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
      "update of macOS or torch may mend it; mpsd --skip-selftest trains "
      "nonetheless");
}

void TestedLauncher::Conclude(const absl::Status& verdict) {
  {
    absl::MutexLock lock(&mutex_);
    testing_ = false;
    if (stopping_) return;
    // Somebody may have asked for another test meanwhile.
    if (!asked_) verdict_ = verdict;
  }
  if (verdict.ok()) TellPass();
  options_.log(verdict.ok() ? "self-test of the device: passed"
                            : std::string(verdict.message()));
  options_.on_change();
}

void TestedLauncher::TellPass() const {
  struct stat file;
  if (stat(options_.verdict_path.c_str(), &file) != 0) return;
  const nlohmann::json verdict = VerdictIn(options_.verdict_path);
  if (!verdict.is_object() || !verdict.contains("identity")) return;
  const std::string device = TextIn(verdict["identity"], "device");
  // The worker writes the file when it has run the checks, and leaves it alone
  // when an earlier verdict still holds.
  if (!device.empty()) {
    options_.on_pass(device, absl::FromTimeT(file.st_mtime));
  }
}

absl::StatusOr<std::unique_ptr<SpawnedProcess>> TestedLauncher::Spawn(
    bool force) {
  const int log = open(options_.log_path.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log < 0) return base::ErrnoStatus(errno, options_.log_path);
  UniqueFd out(log);
  UniqueFd error(fcntl(log, F_DUPFD_CLOEXEC, 0));
  if (error.get() < 0) return base::ErrnoStatus(errno, options_.log_path);
  SpawnedProcess::Options spawn;
  spawn.program = options_.worker_path;
  spawn.args = {"--selftest", "--verdict", options_.verdict_path};
  if (force) spawn.args.push_back("--force");
  spawn.environment = options_.environment;
  if (!options_.temporary_dir.empty()) {
    auto temporary =
        TemporaryFolder::Create(options_.temporary_dir, "selftest");
    if (!temporary.ok()) return temporary.status();
    temporary_ = *std::move(temporary);
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
    what = absl::StrCat("failed: ",
                        TextIn(VerdictIn(options_.verdict_path), "summary"));
  } else {
    what = absl::StrCat("could not run, exit status ", WEXITSTATUS(status));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the self-test of the device ", what, " (",
                   options_.log_path, ")", Advice()));
}

}  // namespace mpsd::supervisor
