// SPDX-License-Identifier: Apache-2.0
#include "client/top/curses_screen.h"

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

// The functions for wide characters are declared for who asks.
#ifndef NCURSES_WIDECHAR
#define NCURSES_WIDECHAR 1
#endif
#include <ncursesw/curses.h>
// A header of macros, two of which are names of ours.
#include <ncursesw/term.h>
#undef columns
#undef lines

namespace mpsd::client::top {
namespace {

constexpr int kEscapeMilliseconds = 100;
constexpr unsigned kStuckSeconds = 2;
// The signals that Wait returns, and those by which a process crashes.
constexpr int kNoticed[] = {SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH};
constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};

// What a signal's handler needs; it may neither lock nor allocate.
struct Emergency {
  std::atomic<int> wake_fd{-1};
  std::atomic<int> ending{0};  // the signal that asked the process to end
  int in_fd = -1;
  int out_fd = -1;
  termios before = {};
  std::array<char, 256> leave = {};  // the terminal's sequences
  size_t leave_bytes = 0;
};
Emergency emergency;

void Notice(int signal) {
  const int saved = errno;
  if (signal == SIGTERM || signal == SIGHUP) {
    emergency.ending = signal;
    alarm(kStuckSeconds);
  }
  const char byte = static_cast<char>(signal);
  // A full pipe wakes as well.
  [[maybe_unused]] const ssize_t n = write(emergency.wake_fd, &byte, 1);
  errno = saved;
}

// Restores the terminal, then ends the process as the signal would have.
void Crash(int signal) {
  pollfd out = {emergency.out_fd, POLLOUT, 0};
  if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0) {
    [[maybe_unused]] const ssize_t n =
        write(emergency.out_fd, emergency.leave.data(), emergency.leave_bytes);
  }
  tcsetattr(emergency.in_fd, TCSANOW, &emergency.before);
  const int ending = emergency.ending;
  const int last = signal == SIGALRM && ending != 0 ? ending : signal;
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(last, &plain, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, last);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(last);
}

int AddToLeave(int c) {
  if (emergency.leave_bytes < emergency.leave.size()) {
    emergency.leave[emergency.leave_bytes++] = static_cast<char>(c);
  }
  return c;
}

// Collects what puts the terminal back: no attributes, the keypad's own keys,
// the cursor, the screen that was there before (or a line below ours).
void PrepareEmergency(int in_fd, int out_fd, const termios& before) {
  emergency.in_fd = in_fd;
  emergency.out_fd = out_fd;
  emergency.before = before;
  emergency.ending = 0;
  emergency.leave_bytes = 0;
  const char* const leave = exit_ca_mode == nullptr ? "\r\n" : exit_ca_mode;
  const char* const sequences[] = {exit_attribute_mode, keypad_local,
                                   cursor_normal, leave, carriage_return};
  for (const char* sequence : sequences) {
    if (sequence != nullptr) tputs(sequence, 1, AddToLeave);
  }
}

// Installs handlers, and puts the former ones back.
class Handlers {
 public:
  void Install() {
    struct sigaction action = {};
    sigemptyset(&action.sa_mask);
    action.sa_handler = Notice;
    action.sa_flags = SA_RESTART;
    for (const int signal : kNoticed) Set(signal, action);
    action.sa_handler = Crash;
    action.sa_flags = 0;
    for (const int signal : kCrashes) Set(signal, action);
  }
  void Remove() {
    alarm(0);
    for (size_t i = count_; i > 0; --i) {
      sigaction(former_[i - 1].first, &former_[i - 1].second, nullptr);
    }
    count_ = 0;
  }

 private:
  void Set(int signal, const struct sigaction& action) {
    former_[count_].first = signal;
    sigaction(signal, &action, &former_[count_].second);
    ++count_;
  }

  std::array<std::pair<int, struct sigaction>,
             std::size(kNoticed) + std::size(kCrashes)>
      former_ = {};
  size_t count_ = 0;
};

// Whether the C library, which ncurses asks, speaks UTF-8 in this process. A
// locale that the environment names but the machine lacks is replaced.
bool SpeakUtf8() {
  for (const char* name : {"", "C.UTF-8", "en_US.UTF-8", "UTF-8"}) {
    if (setlocale(LC_CTYPE, name) != nullptr &&
        std::string(nl_langinfo(CODESET)) == "UTF-8") {
      return true;
    }
  }
  return false;
}

// The console of Linux has a font of 512 characters, Braille not among them.
bool HasBraille() {
  const char* term = getenv("TERM");
  return term == nullptr || std::string(term) != "linux";
}

constexpr short kGreen = 1, kYellow = 2, kRed = 3, kCyan = 4;

void MakeColours() {
  start_color();
  const short ground = use_default_colors() == OK ? -1 : COLOR_BLACK;
  init_pair(kGreen, COLOR_GREEN, ground);
  init_pair(kYellow, COLOR_YELLOW, ground);
  init_pair(kRed, COLOR_RED, ground);
  init_pair(kCyan, COLOR_CYAN, ground);
}

struct Style {
  attr_t attributes;
  short pair;
};

Style StyleOf(Look look, bool colours) {
  switch (look) {
    case Look::kPlain:
      return {A_NORMAL, 0};
    case Look::kStrong:
      return {A_BOLD, 0};
    case Look::kFaint:
      return {A_DIM, 0};
    case Look::kGood:
      return colours ? Style{A_NORMAL, kGreen} : Style{A_BOLD, 0};
    case Look::kWarning:
      return colours ? Style{A_BOLD, kYellow} : Style{A_BOLD, 0};
    case Look::kBad:
      return colours ? Style{A_BOLD, kRed} : Style{A_BOLD | A_UNDERLINE, 0};
    case Look::kCurve:
      return colours ? Style{A_NORMAL, kCyan} : Style{A_NORMAL, 0};
    case Look::kSelected:
      return {A_REVERSE, 0};
    case Look::kBar:
      return {A_UNDERLINE, 0};
  }
  return {A_NORMAL, 0};
}

class OpenScreen final : public CursesScreen {
 public:
  OpenScreen(const Options& options, SCREEN* screen, const termios& before,
             Handlers handlers, int wake_read, int wake_write)
      : in_fd_(fileno(options.in)),
        out_fd_(fileno(options.out)),
        screen_(screen),
        handlers_(handlers),
        wake_read_(wake_read),
        wake_write_(wake_write) {
    raw();  // Ctrl-C, Ctrl-Z and Ctrl-S are keys
    noecho();
    nonl();
    set_escdelay(kEscapeMilliseconds);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    leaveok(stdscr, TRUE);
    curs_set(0);
    colours_ = options.colours && has_colors();
    if (colours_) MakeColours();
    utf8_ = options.utf8 && HasBraille();
    PrepareEmergency(in_fd_, out_fd_, before);
    Fit();
  }

  ~OpenScreen() override {
    // A terminal without a screen of its own for programs would keep ours.
    if (exit_ca_mode == nullptr) {
      erase();
      refresh();
    }
    endwin();
    delscreen(screen_);
    handlers_.Remove();
    emergency.wake_fd = -1;
    close(wake_read_);
    close(wake_write_);
  }

  Size size() override { return {getmaxx(stdscr), getmaxy(stdscr)}; }
  bool utf8() const override { return utf8_; }

  void Show(const Frame& frame) override {
    erase();
    const Size here = size();
    for (int row = 0; row < std::min(here.rows, frame.size().rows); ++row) {
      for (int column = 0;
           column < std::min(here.columns, frame.size().columns); ++column) {
        Put(column, row, frame.at(column, row));
      }
    }
    refresh();
  }

  void Flush() override { flushinp(); }
  void Redraw() override { clearok(curscr, TRUE); }

  std::optional<Key> Wait(absl::Duration timeout) override {
    // Before the terminal is waited for, ncurses may have keys that came
    // together with the last one.
    if (const std::optional<Key> key = NextKey()) return key;
    pollfd fds[] = {{in_fd_, POLLIN, 0}, {wake_read_, POLLIN, 0}};
    const int ms = static_cast<int>(
        absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1))));
    if (poll(fds, 2, ms) <= 0) return std::nullopt;
    if (fds[1].revents != 0) {
      if (const std::optional<Key> key = NextSignal()) return key;
    }
    if (fds[0].revents == 0) return std::nullopt;
    std::optional<Key> key = NextKey();
    // A terminal that was hung up is always ready and never has a key.
    idle_reads_ = key ? 0 : idle_reads_ + 1;
    const bool gone = (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
    if (!key && (gone || idle_reads_ > kMostIdleReads)) {
      return Key{.kind = Key::kSignal, .signal = SIGHUP};
    }
    return key;
  }

  // At most one byte in the pipe, so that it has room for a signal's.
  void Wake() override {
    if (!woken_.exchange(true)) Send(0);
  }
  void Interrupt() override { Send(SIGINT); }

  void Suspend() override {
    endwin();
    struct sigaction plain = {}, ours = {};
    plain.sa_handler = SIG_DFL;
    sigaction(SIGTSTP, &plain, &ours);
    // The whole group: a script that started mpsctl stops with it.
    kill(0, SIGTSTP);
    sigaction(SIGTSTP, &ours, nullptr);
    Return();
  }

 private:
  static constexpr int kMostIdleReads = 10;

  void Send(char byte) {
    [[maybe_unused]] const ssize_t n = write(wake_write_, &byte, 1);
  }

  // Takes the terminal as it is now: its size, and perhaps another's modes.
  void Return() {
    reset_prog_mode();
    Fit();
    Redraw();
  }

  void Fit() {
    winsize window = {};
    if (ioctl(out_fd_, TIOCGWINSZ, &window) != 0 || window.ws_row == 0 ||
        window.ws_col == 0 || !is_term_resized(window.ws_row, window.ws_col)) {
      return;
    }
    resizeterm(window.ws_row, window.ws_col);
  }

  void Put(int column, int row, const Cell& cell) {
    if (cell.columns == 0) return;
    const Style style = StyleOf(cell.look, colours_);
    auto character = static_cast<wchar_t>(cell.character);
    // What the C library would give other columns would shift all behind it.
    if (cell.character > 0x7E && wcwidth(character) != cell.columns) {
      character = L'?';
    }
    const wchar_t text[] = {character, 0};
    cchar_t drawn;
    setcchar(&drawn, text, style.attributes, style.pair, nullptr);
    mvadd_wch(row, column, &drawn);
  }

  std::optional<Key> NextSignal() {
    woken_ = false;
    std::optional<Key> key;
    for (char byte = 0; read(wake_read_, &byte, 1) == 1;) {
      switch (byte) {
        case SIGTERM:
        case SIGHUP:
          return Key{.kind = Key::kSignal, .signal = byte};
        case SIGINT:
          key = Key{.kind = Key::kInterrupt};
          break;
        case SIGTSTP:
          key = Key{.kind = Key::kSuspend};
          break;
        case SIGCONT:
        case SIGWINCH:
          Return();
          if (!key) key = Key{.kind = Key::kResize};
          break;
        default:
          break;
      }
    }
    return key;
  }

  static std::optional<Key> NextKey() {
    wint_t code = 0;
    for (int kind = 0; (kind = get_wch(&code)) != ERR;) {
      const std::optional<Key> key =
          kind == KEY_CODE_YES ? Named(static_cast<int>(code)) : Typed(code);
      if (key) return key;
    }
    return std::nullopt;
  }

  static std::optional<Key> Typed(wint_t code) {
    switch (code) {
      case 3:  // Ctrl-C
        return Key{.kind = Key::kInterrupt};
      case 26:  // Ctrl-Z
        return Key{.kind = Key::kSuspend};
      case 12:  // Ctrl-L
        return Key{.kind = Key::kRedraw};
      case 27:
        return Key{.kind = Key::kEscape};
      case '\r':
      case '\n':
        return Key{.kind = Key::kEnter};
      case 8:
      case 127:
        return Key{.kind = Key::kBackspace};
      default:
        // Other controls are no keys.
        if (code < 0x20) return std::nullopt;
        return Key{.kind = Key::kCharacter,
                   .character = static_cast<char32_t>(code)};
    }
  }

  static std::optional<Key> Named(int code) {
    switch (code) {
      case KEY_UP:
        return Key{.kind = Key::kUp};
      case KEY_DOWN:
        return Key{.kind = Key::kDown};
      case KEY_PPAGE:
        return Key{.kind = Key::kPageUp};
      case KEY_NPAGE:
        return Key{.kind = Key::kPageDown};
      case KEY_HOME:
        return Key{.kind = Key::kHome};
      case KEY_END:
        return Key{.kind = Key::kEnd};
      case KEY_ENTER:
        return Key{.kind = Key::kEnter};
      case KEY_BACKSPACE:
        return Key{.kind = Key::kBackspace};
      default:  // KEY_RESIZE too: NextSignal has told of it
        return std::nullopt;
    }
  }

  const int in_fd_;
  const int out_fd_;
  SCREEN* const screen_;
  Handlers handlers_;
  const int wake_read_;
  const int wake_write_;
  bool colours_ = false;
  bool utf8_ = false;
  std::atomic<bool> woken_{false};
  int idle_reads_ = 0;
};

bool MakePipe(int fds[2]) {
  if (pipe(fds) != 0) return false;
  for (int i = 0; i < 2; ++i) {
    fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    fcntl(fds[i], F_SETFL, O_NONBLOCK);
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CursesScreen>> CursesScreen::Open(
    const Options& options) {
  base::Check(emergency.wake_fd == -1, "one screen is open at a time");
  termios before = {};
  if (tcgetattr(fileno(options.in), &before) != 0 ||
      isatty(fileno(options.out)) != 1) {
    return absl::FailedPreconditionError("this is no terminal");
  }
  Options shown = options;
  shown.utf8 = options.utf8 && SpeakUtf8();
  int wake[2];
  if (!MakePipe(wake)) {
    return absl::ResourceExhaustedError("no more files can be opened");
  }
  emergency.wake_fd = wake[1];
  // Before ncurses, which leaves signals alone that have a handler.
  Handlers handlers;
  handlers.Install();
  SCREEN* screen = newterm(nullptr, options.out, options.in);
  if (screen == nullptr || cursor_address == nullptr) {
    if (screen != nullptr) {
      endwin();
      delscreen(screen);
    }
    handlers.Remove();
    emergency.wake_fd = -1;
    close(wake[0]);
    close(wake[1]);
    const char* term = getenv("TERM");
    return absl::FailedPreconditionError(absl::StrCat(
        "ncurses knows no terminal \"", term == nullptr ? "" : term,
        "\" with a cursor that moves: set TERM to what yours is, such as "
        "xterm-256color or vt100"));
  }
  return std::make_unique<OpenScreen>(shown, screen, before, handlers, wake[0],
                                      wake[1]);
}

}  // namespace mpsd::client::top
