// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/tunnel.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::ssh {
namespace {

constexpr size_t kHost = 6;  // where the host begins, after "ssh://"

constexpr char kFindSocket[] =
#include "find_socket.inc"
    ;
constexpr char kHold[] =
#include "hold.inc"
    ;

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", R"('\'')"}}), "'");
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A user, a host and a port, none of which ssh, or a shell that its
// configuration names, could interpret otherwise.
bool IsPlace(const std::string& text) {
  return !text.empty() && text[0] != '-' && !absl::StrContains(text, "@-") &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || strchr("._-+=@:[]%", c) != nullptr;
         });
}

// Connected to a socket of this machine, else -1.
int ConnectTo(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd, to, sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

Tunnel::Tunnel(const std::string& url, std::string socket, Keep keep)
    : socket_(std::move(socket)), keep_(std::move(keep)) {
  const size_t slash = std::min(url.find('/', kHost), url.size());
  host_ = url.substr(0, slash);
  path_ = url.substr(slash);
  if (path_ == "/") path_.clear();
  if (absl::EndsWith(path_, ".sock")) socket_ = path_;
}

Tunnel::~Tunnel() {
  absl::MutexLock lock(&mutex_);
  End();
}

absl::Status Tunnel::Open() {
  absl::MutexLock lock(&mutex_);
  if (held_ != nullptr && Read(folder_ + "/code").empty()) return status_;
  status_ = Start();
  if (!status_.ok()) End();
  return status_;
}

absl::Status Tunnel::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

std::string Tunnel::target() const {
  absl::MutexLock lock(&mutex_);
  return folder_.empty() ? "unix:/dev/null" : "unix:" + folder_ + "/s";
}

absl::Status Tunnel::Start() {
  if (broken_) return absl::CancelledError("interrupted");
  if (!IsPlace(host_.substr(kHost)) || !base::IsPrintable(path_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", base::Quotable(host_ + path_),
        "': expected ssh://[USER@]HOST[:PORT][/PATH/OF/mpsd.sock]"));
  }
  const bool remembered = !absl::EndsWith(path_, ".sock");
  if (!socket_.empty()) {
    absl::Status forwarded = Forward();
    // The host may have moved the socket meanwhile.
    if (!remembered || !absl::IsUnavailable(forwarded) ||
        !Read(folder_ + "/code").empty()) {
      return forwarded;
    }
  }
  RETURN_IF_ERROR(Find());
  return Forward();
}

absl::Status Tunnel::Find() {
  RETURN_IF_ERROR(Run(
      "-T -o ClearAllForwardings=yes -o StdinNull=no -o SessionType=default "
      "-- " +
          Quoted(host_) + " 'exec /bin/sh -s'",
      absl::StrCat("place=", Quoted(path_), "\n", kFindSocket),
      [] { return false; }));
  std::string found;
  for (absl::string_view line : absl::StrSplit(Read(folder_ + "/out"), '\n')) {
    if (absl::ConsumePrefix(&line, "mpsd-socket ")) {
      found = std::string(line);
    }
  }
  if (found.empty()) return Complaint();
  socket_ = found;
  if (keep_) keep_(found);
  return absl::OkStatus();
}

absl::Status Tunnel::Forward() {
  // ssh would send the host this account's environment for "${NAME}".
  if (socket_[0] != '/' || !base::IsPrintable(socket_) ||
      absl::StrContains(socket_, "${") ||
      socket_.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ssh cannot forward the socket '", base::Quotable(socket_), "'"));
  }
  const std::string remote =
      absl::StrReplaceAll(socket_, {{"\\", "\\\\"}, {":", "\\:"}, {"%", "%%"}});
  int end = -1;
  RETURN_IF_ERROR(
      Run("-N -L \"$d/s:\"" + Quoted(remote) + " -- " + Quoted(host_), "",
          [&] { return (end = ConnectTo(folder_ + "/s")) >= 0; }));
  if (end < 0) return Complaint();
  // gRPC's server speaks first. A silent one is there, but busy.
  pollfd wanted = {end, POLLIN, 0};
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + absl::Seconds(15);
  while (!broken_ && clock.Monotonic() < deadline &&
         poll(&wanted, 1, 50) <= 0) {
  }
  char byte;
  const bool closed = wanted.revents != 0 && read(end, &byte, 1) <= 0;
  close(end);
  if (broken_) return absl::CancelledError("interrupted");
  return closed ? Complaint() : absl::OkStatus();
}

absl::Status Tunnel::Run(const std::string& words, const std::string& input,
                         const std::function<bool()>& ready) {
  End();
  const char* parent = getenv("TMPDIR");
  const bool fits = parent != nullptr && parent[0] == '/' &&
                    strlen(parent) < 60;  // a socket's path is short
  folder_ = absl::StrCat(fits ? parent : "/tmp", "/mpsctl-XXXXXX");
  if (mkdtemp(folder_.data()) == nullptr) {
    return absl::InternalError("cannot make the folder " + folder_);
  }
  std::ofstream(folder_ + "/in") << input;
  held_ = popen(absl::StrCat("d=", Quoted(folder_), "\nset -- \"$d\" ", words,
                             "\n", kHold)
                    .c_str(),
                "w");
  if (held_ == nullptr) return absl::InternalError("cannot run /bin/sh");
  fcntl(fileno(held_), F_SETFD, FD_CLOEXEC);
  while (Read(folder_ + "/code").empty() && !ready()) {
    if (broken_) return absl::CancelledError("interrupted");
    absl::SleepFor(absl::Milliseconds(20));
  }
  return absl::OkStatus();
}

// Why the tunnel failed, in ssh's words.
absl::Status Tunnel::Complaint() const {
  const std::string said = Read(folder_ + "/err");
  const auto says = [&](const char* words) {
    return absl::StrContains(said, words);
  };
  const std::string ended = Read(folder_ + "/code");
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (ended == "127\n") code = absl::StatusCode::kInternal;
  if (ended == "77\n") code = absl::StatusCode::kPermissionDenied;
  if (says("Permission denied (") || says("Host key verification") ||
      says("Too many authentication failures")) {
    code = absl::StatusCode::kUnauthenticated;
  }
  std::string text = "ssh reaches no mpsd";
  if (says("open failed")) {
    absl::StrAppend(&text, ": nothing listens at ", base::Quotable(socket_),
                    ", or sshd forwards no sockets "
                    "(AllowStreamLocalForwarding)");
  }
  for (absl::string_view line : absl::StrSplit(said, '\n', absl::SkipEmpty())) {
    line = absl::StripAsciiWhitespace(line);
    absl::StrAppend(&text, "\nssh:  ", base::Printable(std::string(line)));
  }
  return absl::Status(
      code, absl::StrCat(text, "\n`ssh ", host_, "` tries the same by hand."));
}

void Tunnel::End() {
  if (held_ != nullptr) pclose(held_);
  held_ = nullptr;
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  folder_.clear();
}

}  // namespace mpsd::ssh
