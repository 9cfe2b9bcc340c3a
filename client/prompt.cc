// SPDX-License-Identifier: Apache-2.0
#include "client/prompt.h"

#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "core/base/printable.h"

namespace mpsd::client {
namespace {

constexpr size_t kLongestLine = 4096;
constexpr char kCtrlC = 3, kCtrlD = 4, kBackspace = 8, kCtrlU = 21,
               kDelete = 127;

// What the signal handler restores.
int hidden_fd = -1;
termios hidden_before;

void RestoreAndEnd(int signal) {
  tcsetattr(hidden_fd, TCSANOW, &hidden_before);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// While it lives the terminal shows nothing of what is typed, and gives each
// character at once. One at a time.
class Hidden {
 public:
  explicit Hidden(int fd) {
    tcgetattr(fd, &hidden_before);
    hidden_fd = fd;
    struct sigaction action = {};
    action.sa_handler = RestoreAndEnd;
    sigaction(SIGTERM, &action, &term_);
    sigaction(SIGHUP, &action, &hup_);
    termios quiet = hidden_before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL | ICANON | ISIG);
    quiet.c_cc[VMIN] = 1;
    quiet.c_cc[VTIME] = 0;
    tcsetattr(fd, TCSAFLUSH, &quiet);
  }
  ~Hidden() {
    tcsetattr(hidden_fd, TCSAFLUSH, &hidden_before);
    sigaction(SIGTERM, &term_, nullptr);
    sigaction(SIGHUP, &hup_, nullptr);
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;

 private:
  struct sigaction term_, hup_;
};

void Show(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

absl::StatusOr<std::string> ReadLine(int fd, Echo echo) {
  std::string line;
  while (true) {
    char c = 0;
    const ssize_t n = read(fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::CancelledError("nothing was entered");
    if (c == '\n' || c == '\r') return line;
    if (echo == Echo::kOff) {
      if (c == kCtrlC) return absl::CancelledError("interrupted");
      if (c == kCtrlD && line.empty()) {
        return absl::CancelledError("nothing was entered");
      }
      if (c == kBackspace || c == kDelete) {
        if (!line.empty()) line.pop_back();
        continue;
      }
      if (c == kCtrlU) {
        line.clear();
        continue;
      }
    }
    // The rest of a line that is too long is read and dropped.
    if (line.size() < kLongestLine) line += c;
  }
}

}  // namespace

absl::StatusOr<std::string> Ask(const std::string& question, Echo echo,
                                const char* device) {
  const int fd = open(device, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 || isatty(fd) == 0) {
    if (fd >= 0) close(fd);
    return absl::FailedPreconditionError("there is no terminal to ask on");
  }
  Show(fd, base::Printable(question, base::Breaks::kKeep));
  absl::StatusOr<std::string> line;
  if (echo == Echo::kOff) {
    const Hidden hidden(fd);
    line = ReadLine(fd, echo);
  } else {
    line = ReadLine(fd, echo);
  }
  if (echo == Echo::kOff) Show(fd, "\n");
  close(fd);
  return line;
}

}  // namespace mpsd::client
