// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/tunnel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/ssh/command.h"
#include "client/ssh/complaint.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/printable.h"

namespace mpsd::ssh {
namespace {

// Names in the private folder.
constexpr char kControl[] = "c";
constexpr char kSocket[] = "s";
constexpr char kErrors[] = "e";

constexpr absl::Duration kSession = absl::Minutes(1);   // if nobody is asked
constexpr absl::Duration kForward = absl::Seconds(15);  // ssh to ssh
constexpr absl::Duration kAnswer = absl::Seconds(15);   // of the daemon
constexpr absl::Duration kBetweenTries = absl::Seconds(1);
constexpr absl::Duration kAfterRefusal = absl::Seconds(30);
constexpr int kNapMilliseconds = 50;
// What a session may print, and how much of ssh's words is kept.
constexpr size_t kMostOutput = 64 << 10;
constexpr off_t kMostErrors = 64 << 10;

bool HasTerminal() {
  return Descriptor(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)).valid();
}

absl::Status MakePipe(Descriptor* reading, Descriptor* writing) {
  int ends[2];
  if (pipe(ends) != 0) return base::ErrnoStatus(errno, "pipe");
  for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  *reading = Descriptor(ends[0]);
  *writing = Descriptor(ends[1]);
  return absl::OkStatus();
}

// Whether there was something to read before the nap's end, or an end.
bool Nap(int fd) {
  pollfd wanted = {fd, POLLIN, 0};
  return poll(&wanted, 1, kNapMilliseconds) > 0;
}

absl::Status Spawned(absl::StatusOr<std::unique_ptr<Child>> child,
                     std::unique_ptr<Child>* place) {
  if (absl::IsNotFound(child.status())) {
    return absl::InternalError(absl::StrCat(
        "there is no program '", base::Quotable(SshProgram()),
        "'\nInstall the client of OpenSSH (Debian: openssh-client), or name "
        "the program with MPSD_SSH."));
  }
  if (!child.ok()) return absl::InternalError(child.status().message());
  *place = *std::move(child);
  return absl::OkStatus();
}

absl::Status Interrupted() { return absl::CancelledError("interrupted"); }

}  // namespace

Tunnel::Tunnel(const std::string& url) {
  absl::StatusOr<ServerUrl> parsed = ParseServerUrl(url);
  if (parsed.ok()) {
    url_ = *std::move(parsed);
  } else {
    wrong_url_ = parsed.status();
  }
}

Tunnel::~Tunnel() {
  absl::MutexLock lock(&mutex_);
  End();
}

absl::Status Tunnel::Open(const Show& show) {
  absl::MutexLock lock(&mutex_);
  if (ssh_ != nullptr && !ssh_->Poll()) {
    // ssh adds a line for each call that finds no daemon.
    struct stat facts;
    if (fstat(errors_.get(), &facts) == 0 && facts.st_size > kMostErrors) {
      (void)!ftruncate(errors_.get(), 0);
    }
    return status_;
  }
  const base::Clock& clock = base::Clock::Real();
  if (!status_.ok() && clock.Monotonic() < next_) return status_;
  status_ = Start(show);
  if (!status_.ok()) {
    next_ = clock.Monotonic() +
            (absl::IsUnavailable(status_) ? kBetweenTries : kAfterRefusal);
    End();
  }
  return status_;
}

absl::Status Tunnel::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

std::string Tunnel::target() const {
  absl::MutexLock lock(&mutex_);
  return absl::StrCat("unix:",
                      folder_ == nullptr ? "/dev/null" : FileNamed(kSocket));
}

absl::Status Tunnel::Start(const Show& show) {
  if (!wrong_url_.ok()) return wrong_url_;
  if (broken_) return Interrupted();
  End();
  const bool may_ask = may_ask_ && HasTerminal();
  if (absl::Status s = StartSession(may_ask); !s.ok()) return s;
  FoundSocket found;
  if (absl::Status s = AwaitSocket(may_ask, show, &found); !s.ok()) return s;
  if (absl::Status s = Forward(*found.socket); !s.ok()) return s;
  return Try(found);
}

absl::Status Tunnel::StartSession(bool may_ask) {
  if (folder_ == nullptr) {
    auto folder = PrivateFolder::Make();
    if (!folder.ok()) return absl::InternalError(folder.status().message());
    folder_ = *std::move(folder);
  }
  for (const char* name : {kControl, kSocket, kErrors}) {
    unlink(FileNamed(name).c_str());
  }
  errors_ =
      Descriptor(open(FileNamed(kErrors).c_str(),
                      O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!errors_.valid()) return base::ErrnoStatus(errno, FileNamed(kErrors));
  Descriptor input, output;
  absl::Status piped = MakePipe(&input, &input_);
  if (piped.ok()) piped = MakePipe(&output_, &output);
  if (!piped.ok()) return piped;
  // Before ssh runs: the pipe holds all of it, and nobody can be gone already.
  const std::string script = FindSocketScript(url_.path);
  if (write(input_.get(), script.data(), script.size()) !=
      static_cast<ssize_t>(script.size())) {
    return absl::InternalError("cannot write the script for ssh");
  }
  return Spawned(
      Child::Spawn(SessionCommand(url_, FileNamed(kControl), may_ask),
                   input.get(), output.get(), errors_.get()),
      &ssh_);
}

absl::Status Tunnel::AwaitSocket(bool may_ask, const Show& show,
                                 FoundSocket* found) {
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + kSession;
  std::string text;
  size_t shown = 0;
  bool ended = false;
  while (!ended) {
    if (broken_) return Interrupted();
    if (!may_ask && clock.Monotonic() > deadline) {
      return absl::UnavailableError(
          absl::StrCat(url_.host, " lets nobody in within a minute\n`",
                       ByHand(url_), "` tries the same by hand."));
    }
    if (Nap(output_.get())) {
      char bytes[4096];
      const ssize_t got = read(output_.get(), bytes, sizeof(bytes));
      ended = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
      if (got > 0) text.append(bytes, got);
    }
    if (may_ask && show != nullptr) {
      const std::string said = Said();
      if (said.size() > shown) {
        show(base::Printable(said.substr(shown), base::Breaks::kKeep));
      }
      shown = said.size();
    }
    *found = ReadFoundSocket(text);
    if (found->socket) return absl::OkStatus();
    if (found->none) return NotFound(*found);
    if (text.size() > kMostOutput) break;
  }
  ssh_->WaitFor(absl::Seconds(2), &broken_);
  *found = ReadFoundSocket(absl::StrCat(text, "\n"));
  if (!found->noise.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "the account at ", url_.host,
        " runs no command; its shell says: ", base::Quotable(found->noise),
        "\n`", ByHand(url_), " true` tries the same by hand."));
  }
  return SessionComplaint(url_, Said(), may_ask, shown > 0);
}

absl::Status Tunnel::NotFound(const FoundSocket& found) const {
  if (!found.refused.empty()) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the account that ssh logs in to may not open mpsd's socket ",
        base::Quotable(found.refused[0]), " at ", url_.host,
        "\nWho runs mpsd there can let a group in (mpsd --socket-group NAME), "
        "or log in as the account that mpsd runs as: ssh://USER@",
        url_.host));
  }
  return absl::UnavailableError(absl::StrCat(
      "no mpsd runs at ", url_.host, ": there is no socket at ",
      absl::StrJoin(found.looked, ", ",
                    [](std::string* out, const std::string& place) {
                      out->append(base::Quotable(place));
                    }),
      "\nStart it there (deploy/install.sh, or `mpsd &`), or name its socket: "
      "ssh://",
      url_.host, "/PATH/OF/mpsd.sock"));
}

absl::Status Tunnel::Forward(const std::string& socket) {
  const auto command =
      ForwardCommand(FileNamed(kControl), FileNamed(kSocket), socket);
  if (!command.ok()) return command.status();
  const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  std::unique_ptr<Child> child;
  if (absl::Status s = Spawned(
          Child::Spawn(*command, nothing.get(), nothing.get(), errors_.get()),
          &child);
      !s.ok()) {
    return s;
  }
  const std::optional<int> status = child->WaitFor(kForward, &broken_);
  if (broken_) return Interrupted();
  if (status == 0) return absl::OkStatus();
  if (ssh_->Poll()) return SessionComplaint(url_, Said(), true, false);
  return absl::InternalError(
      absl::StrCat("ssh does not forward the socket\n",
                   "ssh:  ", base::Printable(Said(), base::Breaks::kKeep)));
}

absl::Status Tunnel::Try(const FoundSocket& found) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = FileNamed(kSocket);
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const Descriptor end(::socket(AF_UNIX, SOCK_STREAM, 0));
  fcntl(end.get(), F_SETFD, FD_CLOEXEC);
  if (connect(end.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    return absl::InternalError(base::ErrnoStatus(errno, path).message());
  }
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + kAnswer;
  // gRPC's server speaks first. One that is silent is there, but busy: the
  // calls have their own patience.
  while (clock.Monotonic() < deadline) {
    if (broken_) return Interrupted();
    if (!Nap(end.get())) continue;
    char byte;
    if (read(end.get(), &byte, 1) > 0) return absl::OkStatus();
    if (ssh_->WaitFor(absl::Milliseconds(100), &broken_)) {
      return SessionComplaint(url_, Said(), true, false);
    }
    return ForwardComplaint(url_, *found.socket, found.listens, Said());
  }
  return absl::OkStatus();
}

void Tunnel::End() {
  input_.Close();
  ssh_.reset();
  output_.Close();
  errors_.Close();
}

std::string Tunnel::FileNamed(const char* name) const {
  return absl::StrCat(folder_->path(), "/", name);
}

std::string Tunnel::Said() const {
  std::string text(kMostErrors, '\0');
  const ssize_t got = pread(errors_.get(), text.data(), text.size(), 0);
  text.resize(std::max<ssize_t>(got, 0));
  return text;
}

}  // namespace mpsd::ssh
