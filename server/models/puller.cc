// SPDX-License-Identifier: Apache-2.0
#include "server/models/puller.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/model_folder.h"
#include "server/models/pushed_models.h"

namespace mpsd::hub {
namespace {

namespace fs = std::filesystem;
using supervisor::SpawnedProcess;
using supervisor::UniqueFd;

constexpr size_t kLineBytes = 300;
constexpr size_t kLastLines = 3;
constexpr size_t kReadBytes = 16384;
// A program with endless output waits this long after each kReadBytes.
constexpr absl::Duration kReadPause = absl::Milliseconds(20);

// Configuration, tokenizer and safetensors weights: .json, .safetensors, .txt,
// .model and .jinja, but not .bin, .h5, .msgpack, .onnx, .ot or .tflite, which
// hold the same weights again. One pattern: hf's versions differ in how they
// accept several.
constexpr char kFiles[] = "*.[jstm][saxoi][onftd]*";

// The shell's child waits for the end of the pipe on descriptor 3, which comes
// when this process closes it or dies, and kills the group.
constexpr char kGuard[] =
    "(read -r x <&3; kill -s KILL -- -$$) >/dev/null 2>&1 & "
    "exec \"$0\" \"$@\" 3<&-";

bool IsKept(std::string_view name) {
  for (const char* kept : {"HOME",
                           "USER",
                           "LOGNAME",
                           "LANG",
                           "TZ",
                           "TMPDIR",
                           "XDG_CACHE_HOME",
                           "HF_HOME",
                           "HF_TOKEN",
                           "HF_TOKEN_PATH",
                           "HF_ENDPOINT",
                           "SSL_CERT_FILE",
                           "REQUESTS_CA_BUNDLE",
                           "HTTP_PROXY",
                           "HTTPS_PROXY",
                           "ALL_PROXY",
                           "NO_PROXY",
                           "http_proxy",
                           "https_proxy",
                           "all_proxy",
                           "no_proxy"}) {
    if (name == kept) return true;
  }
  return name.starts_with("LC_");
}

std::string Get(const host::Environment& environment, const char* name) {
  const auto it = environment.find(name);
  return it == environment.end() ? "" : it->second;
}

bool IsProgram(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

absl::Status CheckHubId(const std::string& id) {
  if (!absl::StrContains(id, "..") && !absl::EndsWith(id, ".git")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("id: '", id,
                   "' is not a model id of a hub: it must not contain '..' or "
                   "end in '.git'"));
}

absl::StatusOr<std::string> FindHf(const std::string& command,
                                   const host::Environment& environment) {
  if (!command.empty()) {
    if (IsProgram(command)) return command;
    return absl::FailedPreconditionError(
        absl::StrCat("mpsd's --hf-command, ", command, ", is not a program"));
  }
  std::vector<std::string> folders =
      absl::StrSplit(Get(environment, "PATH"), ':');
  for (const char* folder : {"/opt/homebrew/bin", "/usr/local/bin"}) {
    folders.push_back(folder);
  }
  folders.push_back(Get(environment, "HOME") + "/.local/bin");
  for (const std::string& folder : folders) {
    if (!folder.starts_with('/')) continue;
    const fs::path program = fs::path(folder) / "hf";
    if (IsProgram(program)) return program.string();
  }
  return absl::FailedPreconditionError(
      "mpsd's machine has no Hugging Face client (hf): install it there with "
      "`brew install hf` (without Homebrew `pipx install huggingface_hub`, as "
      "the account that mpsd runs as), or push the model's folder (mpsctl "
      "model "
      "push)");
}

host::Environment HfEnvironment(const host::Environment& environment,
                                const std::string& hf,
                                const std::string& cache) {
  host::Environment kept;
  for (const auto& [name, value] : environment) {
    if (IsKept(name)) kept[name] = value;
  }
  kept["PATH"] = absl::StrCat(fs::path(hf).parent_path().string(),
                              ":/usr/local/bin:/usr/bin:/bin");
  kept["HF_HUB_CACHE"] = cache;
  kept["HF_HUB_DISABLE_TELEMETRY"] = "1";
  kept["NO_COLOR"] = "1";
  kept["PYTHONUNBUFFERED"] = "1";
  return kept;
}

absl::StatusOr<std::unique_ptr<HfDownload>> HfDownload::Start(
    const std::string& hf, const host::Environment& environment,
    const std::string& id, const std::string& revision) {
  ASSIGN_OR_RETURN(supervisor::Pipe output, supervisor::MakePipe());
  ASSIGN_OR_RETURN(supervisor::Pipe life, supervisor::MakePipe());
  supervisor::Unblock(output.reading);
  ASSIGN_OR_RETURN(UniqueFd error, supervisor::Duplicate(output.writing));
  SpawnedProcess::Options options;
  options.program = "/bin/sh";
  options.args = {"-c",
                  kGuard,
                  hf,
                  "download",
                  id,
                  absl::StrCat("--revision=", revision),
                  absl::StrCat("--include=", kFiles)};
  options.environment = environment;
  options.fds[STDOUT_FILENO] = std::move(output.writing);
  options.fds[STDERR_FILENO] = std::move(error);
  options.fds[3] = std::move(life.reading);
  ASSIGN_OR_RETURN(std::unique_ptr<SpawnedProcess> process,
                   SpawnedProcess::Spawn(std::move(options)));
  std::unique_ptr<HfDownload> download(new HfDownload());
  download->process_ = std::move(process);
  download->output_ = std::move(output.reading);
  download->life_ = std::move(life.writing);
  return download;
}

HfDownload::~HfDownload() = default;

std::optional<absl::Status> HfDownload::Await(absl::Duration patience) {
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + patience;
  while (true) {
    const std::optional<int> ended = process_->Poll();
    const absl::Duration left = deadline - clock.Monotonic();
    pollfd fd = {output_.get(), POLLIN, 0};
    const auto wait =
        ended ? absl::ZeroDuration()
              : std::clamp(left, absl::ZeroDuration(), absl::Milliseconds(50));
    const bool readable =
        poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(wait))) > 0 &&
        Read();
    if (ended && !readable) return EndOf(*ended);
    if (left <= absl::ZeroDuration()) {
      if (ended) return EndOf(*ended);
      return std::nullopt;
    }
  }
}

bool HfDownload::Read() {
  char bytes[kReadBytes];
  const ssize_t got = read(output_.get(), bytes, sizeof(bytes));
  if (got == 0) {
    // Closed, while hf may still run: poll ignores a negative descriptor.
    output_.reset();
    return false;
  }
  if (got < 0) return false;
  Take({bytes, static_cast<size_t>(got)});
  if (static_cast<size_t>(got) == sizeof(bytes)) absl::SleepFor(kReadPause);
  return true;
}

void HfDownload::Take(std::string_view text) {
  for (const char c : text) {
    if (c != '\n' && c != '\r') {
      if (line_.size() < kLineBytes) line_.push_back(c);
      continue;
    }
    const std::string line(absl::StripAsciiWhitespace(line_));
    line_.clear();
    // Hints are for users who run hf in a terminal.
    if (line.empty() || line.starts_with("Hint:")) continue;
    progress_ = base::Printable(line);
    if (c == '\r') continue;
    if (last_lines_.size() == kLastLines)
      last_lines_.erase(last_lines_.begin());
    last_lines_.push_back(progress_);
  }
  // A progress bar begins with its '\r', and has no end yet.
  const absl::string_view bar = absl::StripAsciiWhitespace(line_);
  if (absl::StrContains(bar, '%'))
    progress_ = base::Printable(std::string(bar));
}

absl::Status HfDownload::EndOf(int wait_status) const {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    return absl::OkStatus();
  }
  std::string said = absl::StrJoin(last_lines_, "; ");
  const std::string rest =
      base::Printable(std::string(absl::StripAsciiWhitespace(line_)));
  if (!rest.empty()) absl::StrAppend(&said, said.empty() ? "" : "; ", rest);
  return absl::FailedPreconditionError(
      absl::StrCat("hf download failed (",
                   WIFSIGNALED(wait_status)
                       ? absl::StrCat("signal ", WTERMSIG(wait_status))
                       : absl::StrCat("exit status ", WEXITSTATUS(wait_status)),
                   ")", said.empty() ? "" : ": ", said));
}

namespace {

// How often to check the client's output and for a stop, and to wake watches.
constexpr absl::Duration kTick = absl::Milliseconds(200);

std::string Named(const models::PullRequest& request) {
  return absl::StrCat(request.id, "@", request.revision);
}

}  // namespace

// The state of a pull, for its watchers; lives as long as a watch. Thread-safe.
class WatchedPull : public std::enable_shared_from_this<WatchedPull> {
 public:
  void Report(const models::PullNews& news) {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const bool same = changes_ > 0 && news.note == latest_.note &&
                        news.received_bytes == latest_.received_bytes;
      latest_ = news;
      return !same;
    });
  }
  // Nothing follows.
  void End(absl::Status status) {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      latest_.done = status.ok();
      end_ = std::move(status);
      return true;
    });
  }
  // Begins with the pull's current progress.
  std::unique_ptr<models::PullWatch> Watch(std::function<void()> wake) {
    auto look = std::make_unique<Look>(shared_from_this());
    absl::MutexLock lock(&mutex_);
    wakes_[look.get()] = std::move(wake);
    return look;
  }

 private:
  class Look final : public models::PullWatch {
   public:
    explicit Look(std::shared_ptr<WatchedPull> pull) : pull_(std::move(pull)) {}
    ~Look() override {
      absl::MutexLock lock(&pull_->mutex_);
      pull_->wakes_.erase(this);
    }
    absl::StatusOr<std::optional<models::PullNews>> Next() override {
      absl::MutexLock lock(&pull_->mutex_);
      if (!pull_->end_.ok()) return pull_->end_;
      if (seen_ == pull_->changes_) return std::nullopt;
      seen_ = pull_->changes_;
      return pull_->latest_;
    }

   private:
    const std::shared_ptr<WatchedPull> pull_;
    int64_t seen_ = 0;
  };

  // Calls the wake-ups without the lock: one may end a watch.
  void Change(const std::function<bool()>& change) {
    std::vector<std::function<void()>> wakes;
    {
      absl::MutexLock lock(&mutex_);
      if (!change()) return;
      ++changes_;
      for (const auto& [look, wake] : wakes_) wakes.push_back(wake);
    }
    for (const std::function<void()>& wake : wakes) wake();
  }

  absl::Mutex mutex_;
  models::PullNews latest_ ABSL_GUARDED_BY(mutex_);
  int64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  std::map<const Look*, std::function<void()>> wakes_ ABSL_GUARDED_BY(mutex_);
};

Puller::~Puller() {
  {
    base::MonitorLock lock(&mutex_);
    closing_ = true;
    for (auto& [id, active] : active_) {
      active.stopped = absl::UnavailableError(
          "mpsd stops: pull again, what arrived is in the cache");
    }
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return active_.empty();
    };
    mutex_.AwaitFor(absl::InfiniteDuration(), none);
  }
  for (std::thread& thread : Ended()) thread.join();
}

std::vector<std::thread> Puller::Ended() {
  base::MonitorLock lock(&mutex_);
  return std::exchange(ended_, {});
}

absl::Status Puller::CheckNew(const models::PullRequest& request) const {
  if (closing_) return absl::UnavailableError("mpsd stops");
  std::vector<std::string> names;
  for (const auto& [id, active] : active_) {
    names.push_back(Named(active.request));
    if (models::FoldedName(id) == models::FoldedName(request.id)) {
      return absl::FailedPreconditionError(
          absl::StrCat(names.back(), " is being pulled: wait, or cancel it"));
    }
  }
  if (names.size() < static_cast<size_t>(limits::kPulls)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      limits::kPulls, " pulls are under way (", absl::StrJoin(names, ", "),
      "): wait for one, or cancel it"));
}

absl::Status Puller::CheckRoom(const models::PullRequest& request) const {
  std::error_code error;
  const auto space = std::filesystem::space(options_.cache, error);
  // If the disk reports nothing, hf finds out.
  if (!error && space.available < static_cast<uintmax_t>(std::max(
                                      options_.min_free_bytes, int64_t{0}))) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the disk of ", options_.cache.string(), " has ", space.available,
        " bytes free, and ", options_.min_free_bytes,
        " are kept free (mpsd --min-free-bytes)"));
  }
  if (users_ == nullptr || !request.limits.upload_bytes) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const jobs::UserBytes bytes, users_->BytesOf(request.user));
  return jobs::CheckUploads(request.user, request.limits, bytes.uploads, 0);
}

absl::StatusOr<std::unique_ptr<models::PullWatch>> Puller::Pull(
    const models::PullRequest& request, std::function<void()> wake) {
  for (std::thread& thread : Ended()) thread.join();
  RETURN_IF_ERROR(CheckHubId(request.id));
  base::MonitorLock lock(&mutex_);
  const auto it = active_.find(request.id);
  if (it != active_.end() && it->second.request.revision == request.revision) {
    if (it->second.stopped.ok()) {
      return it->second.watched->Watch(std::move(wake));
    }
    return absl::UnavailableError(absl::StrCat("the pull of ", Named(request),
                                               " is just ending: pull again"));
  }
  RETURN_IF_ERROR(CheckNew(request));
  ASSIGN_OR_RETURN(const std::string hf,
                   FindHf(options_.command, options_.environment));
  RETURN_IF_ERROR(CheckRoom(request));
  absl::StatusOr<std::unique_ptr<HfDownload>> download = HfDownload::Start(
      hf, HfEnvironment(options_.environment, hf, options_.cache.string()),
      request.id, request.revision);
  if (!download.ok()) return download.status();
  options_.log(absl::StrCat("pulls ", Named(request), " for ", request.user));
  Active& active = active_[request.id];
  active.request = request;
  active.watched = std::make_shared<WatchedPull>();
  options_.running(static_cast<int>(active_.size()));
  active.thread = std::thread([this, request, watched = active.watched,
                               download = *std::move(download)]() mutable {
    absl::Status status = Run(request, *download, *watched);
    download.reset();
    End(request.id, std::move(status));
  });
  return active.watched->Watch(std::move(wake));
}

absl::Status Puller::Run(const models::PullRequest& request,
                         HfDownload& download, WatchedPull& watched) {
  const base::Clock& clock = base::Clock::Real();
  const std::filesystem::path repository =
      options_.cache / spec::RepositoryName(request.id);
  int64_t counted = models::FolderBytes(repository);
  const int64_t before = counted;
  const absl::Duration deadline = clock.Monotonic() + options_.longest;
  absl::Duration next_look = clock.Monotonic() + options_.interval;
  models::PullNews news;
  news.note = "hf download runs";
  watched.Report(news);
  const auto measure = [&] {
    const int64_t bytes = models::FolderBytes(repository);
    news.received_bytes = std::max(bytes - before, int64_t{0});
    // What hf removes was counted for the user who wrote it, and still is.
    if (bytes <= counted) return absl::OkStatus();
    options_.received(bytes - counted);
    absl::Status added = pulls_.Add(request.id, request.user, bytes - counted);
    if (added.ok()) counted = bytes;
    return added;
  };
  absl::Status stop;
  std::optional<absl::Status> end;
  while (stop.ok() && !(end = download.Await(kTick))) {
    news.note = download.progress().empty() ? news.note : download.progress();
    stop = StopOf(request.id);
    if (stop.ok() && clock.Monotonic() >= deadline) {
      stop = absl::ResourceExhaustedError(
          absl::StrCat("the pull took longer than ",
                       absl::FormatDuration(options_.longest)));
    }
    if (stop.ok() && clock.Monotonic() >= next_look) {
      next_look = clock.Monotonic() + options_.interval;
      stop = measure();
      if (stop.ok()) stop = CheckRoom(request);
    }
    watched.Report(news);
  }
  if (!end) download.Stop(options_.stop_grace);
  const absl::Status measured = measure();
  if (!stop.ok()) return stop;
  if (!end->ok()) return *end;
  if (!measured.ok()) return measured;
  watched.Report(news);
  const absl::StatusOr<std::string> folder =
      spec::FindInHubCache(absl::StrCat(request.id, "@", request.revision));
  if (folder.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("hf download ended, but ", folder.status().message()));
}

absl::Status Puller::StopOf(const std::string& id) const {
  base::MonitorLock lock(&mutex_);
  return active_.at(id).stopped;
}

void Puller::End(const std::string& id, absl::Status status) {
  options_.count(status.ok()                 ? PullEnd::kSucceeded
                 : absl::IsCancelled(status) ? PullEnd::kCancelled
                                             : PullEnd::kFailed);
  std::shared_ptr<WatchedPull> watched;
  {
    base::MonitorLock lock(&mutex_);
    auto it = active_.find(id);
    options_.log(
        absl::StrCat("the pull of ", Named(it->second.request),
                     status.ok() ? " is done" : " ended: ", status.message()));
    watched = std::move(it->second.watched);
    ended_.push_back(std::move(it->second.thread));
    active_.erase(it);
    options_.running(static_cast<int>(active_.size()));
  }
  watched->End(std::move(status));
}

absl::Status Puller::Cancel(const models::PullRequest& request) {
  base::MonitorLock lock(&mutex_);
  const auto it = active_.find(request.id);
  if (it == active_.end() || it->second.request.revision != request.revision) {
    return absl::NotFoundError(
        absl::StrCat("no pull of ", Named(request), " is under way"));
  }
  const std::string& owner = it->second.request.user;
  if (owner != request.user && !request.is_admin) {
    return absl::PermissionDeniedError(
        absl::StrCat("the pull of ", Named(request), " is ", owner, "'s: ask ",
                     owner, " or an admin to cancel it"));
  }
  it->second.stopped = absl::CancelledError(
      absl::StrCat(request.user, " cancelled the pull of ", Named(request)));
  // A client that ignores SIGTERM is killed within the grace.
  const auto gone = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !active_.contains(request.id);
  };
  mutex_.AwaitFor(options_.stop_grace + absl::Seconds(5), gone);
  return absl::OkStatus();
}

bool Puller::IsPulling(const std::string& id) {
  base::MonitorLock lock(&mutex_);
  return std::any_of(active_.begin(), active_.end(), [&](const auto& entry) {
    return models::FoldedName(entry.first) == models::FoldedName(id);
  });
}

}  // namespace mpsd::hub
