// SPDX-License-Identifier: Apache-2.0
#include "server/models/hf_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/status_macros.h"

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

struct Pipe {
  UniqueFd reading, writing;

  absl::Status Open() {
    int ends[2];
    if (pipe(ends) != 0) return base::ErrnoStatus(errno, "pipe");
    reading.reset(ends[0]);
    writing.reset(ends[1]);
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    return absl::OkStatus();
  }
};

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
  Pipe output, life;
  RETURN_IF_ERROR(output.Open());
  RETURN_IF_ERROR(life.Open());
  fcntl(output.reading.get(), F_SETFL, O_NONBLOCK);
  UniqueFd error(fcntl(output.writing.get(), F_DUPFD_CLOEXEC, 0));
  if (!error.valid()) return base::ErrnoStatus(errno, "fcntl");
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

}  // namespace mpsd::hub
