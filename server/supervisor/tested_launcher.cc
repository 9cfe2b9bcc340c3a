// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/tested_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::supervisor {

namespace {

// `text`, printable and at most `max_bytes` long. Bytes far beyond the bound
// are not even read.
std::string Bounded(std::string_view text, size_t max_bytes,
                    base::Breaks breaks = base::Breaks::kEscape) {
  return base::Shortened(
      base::Printable(base::Shortened(text, max_bytes + 8), breaks), max_bytes);
}

// The matrix with printable labels; empty if it is omitted.
std::string CleanMatrix(const std::string& text) {
  if (text.size() > limits::kMatrixBytes) return "";
  auto matrix = base::ParseTree<nlohmann::ordered_json>(text);
  if (!matrix.is_object() || !matrix.contains("labels")) return "";
  auto& labels = matrix["labels"];
  if (!labels.is_array()) return "";
  for (auto& label : labels) {
    if (!label.is_string()) return "";
    label = base::Printable(label.get<std::string>());
  }
  return matrix.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
}

// Visits a report's fields and cleans those that hold text.
class Cleaner {
 public:
  void operator()(std::string_view name, std::string& value) const {
    if (name == "path" || name == "output_path") return;
    if (name == "message") {
      value = CleanText(value);
    } else if (name == "confusion_matrix") {
      value = CleanMatrix(value);
    } else {
      value = CleanVersion(value);
    }
  }
  void operator()(std::string_view, report::Metrics& value) const {
    if (value.size() > limits::kMetrics) value.resize(limits::kMetrics);
    for (auto& [metric, number] : value) {
      metric = Bounded(metric, limits::kMetricNameBytes);
    }
  }
  void operator()(std::string_view, report::Counts& value) const {
    report::Counts clean;
    for (const auto& [counted, count] : value) {
      if (clean.size() == limits::kFallbackOps) break;
      clean[Bounded(counted, limits::kMetricNameBytes)] = count;
    }
    value = std::move(clean);
  }
  // A list of paths.
  void operator()(std::string_view, std::vector<std::string>& value) const {
    if (value.size() > limits::kRemovedPaths) {
      value.resize(limits::kRemovedPaths);
    }
  }
  // A field without text; a member of another type does not compile here.
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(std::string_view, T&) const {}
  template <typename T>
  requires std::is_arithmetic_v<T>
  void operator()(std::string_view, std::optional<T>&) const {}
  void operator()(std::string_view, report::MemoryCounters&) const {}
};

template <typename Report>
void CleanFields(Report& report) {
  const Cleaner cleaner;
  Fields(cleaner, report, &report);
}

}  // namespace

void Clean(report::Progress& progress) { CleanFields(progress); }
void Clean(report::Evaluated& evaluated) { CleanFields(evaluated); }
void Clean(report::Checkpointed& checkpointed) { CleanFields(checkpointed); }
void Clean(report::Failure& failure) { CleanFields(failure); }

bool Clean(report::Outcome& outcome) {
  const bool had_matrix = !outcome.confusion_matrix.empty();
  CleanFields(outcome);
  return !had_matrix || !outcome.confusion_matrix.empty();
}

std::string CleanText(std::string_view text) {
  return Bounded(text, limits::kMessageBytes, base::Breaks::kKeep);
}

std::string CleanWarning(std::string_view text) {
  return Bounded(text, limits::kWarningBytes);
}

std::string CleanStage(std::string_view text) {
  return Bounded(text, limits::kStageBytes);
}

std::string CleanVersion(std::string_view text) {
  return Bounded(text, limits::kVersionBytes);
}

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

// Reads what the pipe has now, bounded for a worker that never stops; excess
// output is read and dropped, so that the worker does not block. False once the
// pipe is at its end.
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
  ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
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
  spawn.fds[STDOUT_FILENO] = std::move(pipe.write);
  ASSIGN_OR_RETURN(std::unique_ptr<SpawnedProcess> process,
                   SpawnedProcess::Spawn(std::move(spawn)));
  GatesRun run;
  const absl::Time end = absl::Now() + options.limit;
  bool open = true;
  while (absl::Now() < end) {
    if (open) AwaitOutput(pipe.read);
    run.status = process->WaitFor(open ? absl::ZeroDuration() : kLook);
    if (open) open = Take(pipe.read, run.output);
    // Not at the pipe's end: a child of the worker may hold it open.
    if (run.status) return run;
    RETURN_IF_ERROR(wanted());
  }
  return run;
}

namespace {

// An object; null if there is none.
nlohmann::json VerdictIn(const std::string& path) {
  const auto text = base::ReadFile(path);
  if (!text.ok()) return nullptr;
  return base::ParseTree<nlohmann::json>(*text);
}

// "" if `object` has no such string.
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
      "update of macOS or torch may fix it; mpsd --skip-selftest trains "
      "without it");
}

void TestedLauncher::Conclude(const absl::Status& verdict) {
  {
    absl::MutexLock lock(&mutex_);
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

void TestedLauncher::TellPass() const {
  struct stat file;
  if (stat(options_.verdict_path.c_str(), &file) != 0) return;
  const nlohmann::json verdict = VerdictIn(options_.verdict_path);
  if (!verdict.is_object() || !verdict.contains("identity")) return;
  const std::string device = TextIn(verdict["identity"], "device");
  // The worker writes the file when it has run the checks, and does not change
  // it if an earlier verdict is still valid.
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
