// SPDX-License-Identifier: Apache-2.0
#include "client/top/curses_screen.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace mpsd::client::top {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr char kLeave[] = "\x1b[?1049l";  // the alternate screen, of xterm

// A terminal of 80×24 whose other end is read all the time.
class Pseudoterminal {
 public:
  Pseudoterminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    grantpt(master_);
    unlockpt(master_);
    const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
    in = fdopen(slave, "r");
    out = fdopen(dup(slave), "w");
    Resize(80, 24);
    reader_ = std::thread([this] {
      char bytes[4096];
      pollfd fd = {master_, POLLIN, 0};
      while (!ended_) {
        if (stuck_ || poll(&fd, 1, 10) <= 0) continue;
        const ssize_t n = read(master_, bytes, sizeof bytes);
        if (n <= 0) return;
        absl::MutexLock lock(&mutex_);
        written_.append(bytes, n);
      }
    });
  }
  ~Pseudoterminal() {
    HangUp();
    fclose(in);
    fclose(out);
  }

  void Resize(int columns, int rows) {
    winsize size = {};
    size.ws_col = columns;
    size.ws_row = rows;
    ioctl(master_, TIOCSWINSZ, &size);
  }
  void Type(const std::string& keys) {
    ASSERT_EQ(write(master_, keys.data(), keys.size()),
              static_cast<ssize_t>(keys.size()));
  }
  // From now on nobody reads what is written.
  void Stick() { stuck_ = true; }
  void HangUp() {
    ended_ = true;
    if (reader_.joinable()) reader_.join();
    if (master_ >= 0) close(master_);
    master_ = -1;
  }
  // What was written, once `part` is in it.
  std::string Written(const std::string& part) {
    const absl::Time end = absl::Now() + kLong;
    while (true) {
      {
        absl::MutexLock lock(&mutex_);
        if (written_.find(part) != std::string::npos || absl::Now() > end) {
          return written_;
        }
      }
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
  // The modes that the shell had set, which a program must put back.
  termios Modes() const {
    termios modes = {};
    tcgetattr(fileno(in), &modes);
    return modes;
  }

  FILE* in;
  FILE* out;

 private:
  int master_;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> stuck_ = false;
  absl::Mutex mutex_;
  std::string written_;
  std::thread reader_;
};

class CursesScreenTest : public testing::Test {
 protected:
  CursesScreenTest() {
    setenv("TERM", "xterm-256color", 1);
    unsetenv("LINES");
    unsetenv("COLUMNS");
    testing::GTEST_FLAG(death_test_style) = "fast";
  }
  std::unique_ptr<CursesScreen> Open(bool colours = true) {
    CursesScreen::Options options;
    options.in = terminal_.in;
    options.out = terminal_.out;
    options.colours = colours;
    auto screen = CursesScreen::Open(options);
    EXPECT_TRUE(screen.ok()) << screen.status();
    return std::move(*screen);
  }
  // The next key that is one; -1 for none.
  static int Next(Screen& screen, char32_t* character = nullptr) {
    const absl::Time end = absl::Now() + kLong;
    while (absl::Now() < end) {
      const std::optional<Key> key = screen.Wait(absl::Milliseconds(100));
      if (!key) continue;
      if (character != nullptr) *character = key->character;
      return key->kind;
    }
    return -1;
  }
  static Frame Picture(const std::string& text, Look look = Look::kBad) {
    Frame frame({80, 24}, true);
    frame.Put(0, 0, text, look);
    return frame;
  }
  void ExpectRestored(const termios& before) {
    EXPECT_THAT(terminal_.Written(kLeave), HasSubstr(kLeave));
    const termios after = terminal_.Modes();
    EXPECT_EQ(after.c_lflag, before.c_lflag);
    EXPECT_EQ(after.c_iflag, before.c_iflag);
    EXPECT_EQ(after.c_oflag, before.c_oflag);
  }

  Pseudoterminal terminal_;
};

TEST_F(CursesScreenTest, RefusesWhatIsNoTerminal) {
  FILE* null = fopen("/dev/null", "r+");
  for (const auto& [in, out] :
       {std::pair{null, terminal_.out}, std::pair{terminal_.in, null}}) {
    CursesScreen::Options options;
    options.in = in;
    options.out = out;
    EXPECT_EQ(CursesScreen::Open(options).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  fclose(null);
}

TEST_F(CursesScreenTest, RefusesATerminalThatNobodyKnows) {
  const termios before = terminal_.Modes();
  for (const char* term : {"no-such-terminal", "dumb", ""}) {
    setenv("TERM", term, 1);
    CursesScreen::Options options;
    options.in = terminal_.in;
    options.out = terminal_.out;
    const absl::Status status = CursesScreen::Open(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << term;
    EXPECT_THAT(status.message(), HasSubstr("set TERM"));
    EXPECT_EQ(terminal_.Modes().c_lflag, before.c_lflag) << term;
  }
  setenv("TERM", "vt100", 1);
  EXPECT_NE(Open(), nullptr);
}

TEST_F(CursesScreenTest, DrawsAndRestoresTheTerminal) {
  const termios before = terminal_.Modes();
  {
    auto screen = Open();
    EXPECT_EQ(screen->size(), (Size{80, 24}));
    EXPECT_TRUE(screen->utf8());
    EXPECT_NE(terminal_.Modes().c_lflag, before.c_lflag);
    screen->Show(Picture("loss ⠒ 気"));
    EXPECT_THAT(terminal_.Written("気"), HasSubstr("loss ⠒ 気"));
    screen->Show(Picture("again"));
    terminal_.Written("again");
    screen->Redraw();
    screen->Show(Picture("again"));
    // A frame of another size than the screen is cut.
    screen->Show(Frame({500, 500}, true));
    screen->Show(Frame({1, 1}, true));
  }
  ExpectRestored(before);
}

TEST_F(CursesScreenTest, UsesColoursUnlessToldNotTo) {
  Open()->Show(Picture("red"));
  EXPECT_THAT(terminal_.Written("red"), HasSubstr("\x1b[31m"));
  Pseudoterminal other;
  std::swap(terminal_.in, other.in);
  std::swap(terminal_.out, other.out);
  Open(false)->Show(Picture("plain"));
  EXPECT_THAT(other.Written("plain"), Not(HasSubstr("\x1b[3")));
  std::swap(terminal_.in, other.in);
  std::swap(terminal_.out, other.out);
}

TEST_F(CursesScreenTest, ReadsKeys) {
  auto screen = Open();
  char32_t character = 0;
  terminal_.Type("qß\x1bOA\x1b[6~\r\x7f\x03\x1a\x0c");
  EXPECT_EQ(Next(*screen, &character), Key::kCharacter);
  EXPECT_EQ(character, U'q');
  EXPECT_EQ(Next(*screen, &character), Key::kCharacter);
  EXPECT_EQ(character, U'ß');
  for (const int kind : {Key::kUp, Key::kPageDown, Key::kEnter, Key::kBackspace,
                         Key::kInterrupt, Key::kSuspend, Key::kRedraw}) {
    EXPECT_EQ(Next(*screen), kind);
  }
  terminal_.Type("\x1b");
  EXPECT_EQ(Next(*screen), Key::kEscape);
  terminal_.Type("\x01x");  // a control that is no key
  EXPECT_EQ(Next(*screen, &character), Key::kCharacter);
  EXPECT_EQ(character, U'x');
}

TEST_F(CursesScreenTest, ForgetsKeysThatWereTypedAhead) {
  auto screen = Open();
  terminal_.Type("accuracy");
  EXPECT_EQ(Next(*screen), Key::kCharacter);
  screen->Flush();
  EXPECT_FALSE(screen->Wait(absl::Milliseconds(20)).has_value());
  terminal_.Type("y");
  EXPECT_EQ(Next(*screen), Key::kCharacter);
}

TEST_F(CursesScreenTest, WaitsNoLongerThanItShould) {
  auto screen = Open();
  const absl::Time begin = absl::Now();
  EXPECT_FALSE(screen->Wait(absl::Milliseconds(20)).has_value());
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(19));
  EXPECT_FALSE(screen->Wait(absl::ZeroDuration()).has_value());
}

TEST_F(CursesScreenTest, IsWokenByAnotherThread) {
  auto screen = Open();
  const absl::Time begin = absl::Now();
  std::thread waker([&] {
    absl::SleepFor(absl::Milliseconds(20));
    screen->Wake();
  });
  EXPECT_FALSE(screen->Wait(absl::Hours(1)).has_value());
  EXPECT_LT(absl::Now() - begin, kLong);
  waker.join();
  // However often: the pipe is never full for good.
  for (int i = 0; i < 100'000; ++i) screen->Wake();
  screen->Interrupt();
  while (screen->Wait(absl::ZeroDuration())) {
  }
  screen->Interrupt();
  EXPECT_EQ(Next(*screen), Key::kInterrupt);
}

TEST_F(CursesScreenTest, ReturnsSignalsAsKeys) {
  auto screen = Open();
  raise(SIGTSTP);
  EXPECT_EQ(Next(*screen), Key::kSuspend);
  raise(SIGCONT);
  EXPECT_EQ(Next(*screen), Key::kResize);
  terminal_.Resize(200, 60);
  raise(SIGWINCH);
  EXPECT_EQ(Next(*screen), Key::kResize);
  EXPECT_EQ(screen->size(), (Size{200, 60}));
  for (const int signal : {SIGTERM, SIGHUP}) {
    raise(signal);
    // The process ends by itself where nobody looks at the signal for two
    // seconds, which a machine that stands still may take: that is tested
    // below.
    alarm(0);
    while (true) {
      const std::optional<Key> key = screen->Wait(kLong);
      if (!key || key->kind == Key::kResize) continue;
      EXPECT_EQ(key->kind, Key::kSignal);
      EXPECT_EQ(key->signal, signal);
      break;
    }
  }
}

TEST_F(CursesScreenTest, EndsWhenTheTerminalIsHungUp) {
  auto screen = Open();
  terminal_.HangUp();
  EXPECT_EQ(Next(*screen), Key::kSignal);
}

TEST_F(CursesScreenTest, RestoresTheTerminalWhenTheProcessCrashes) {
  const termios before = terminal_.Modes();
  for (const int signal : {SIGABRT, SIGSEGV}) {
    EXPECT_EXIT(
        {
          auto screen = Open();
          screen->Show(Picture("about to crash"));
          raise(signal);
        },
        testing::KilledBySignal(signal), "");
    ExpectRestored(before);
  }
}

// ThreadSanitizer delivers no signal to a thread that sleeps in Abseil, and
// starts no thread in a child of several threads.
#if !defined(__SANITIZE_THREAD__)
TEST_F(CursesScreenTest, EndsThoughNobodyLooksAtItsSignals) {
  const termios before = terminal_.Modes();
  EXPECT_EXIT(
      {
        auto screen = Open();
        raise(SIGTERM);
        absl::SleepFor(kLong);
      },
      testing::KilledBySignal(SIGTERM), "");
  ExpectRestored(before);
}

TEST_F(CursesScreenTest, EndsThoughTheTerminalTakesNothing) {
  const termios before = terminal_.Modes();
  terminal_.Stick();
  EXPECT_EXIT(
      {
        auto screen = Open();
        std::thread([] {
          absl::SleepFor(absl::Milliseconds(200));
          kill(getpid(), SIGTERM);
        }).detach();
        for (bool odd = false;; odd = !odd) {
          screen->Redraw();
          screen->Show(Picture(odd ? "odd" : "even"));
        }
      },
      testing::KilledBySignal(SIGTERM), "");
  EXPECT_EQ(terminal_.Modes().c_lflag, before.c_lflag);
}
#endif

TEST_F(CursesScreenTest, LeavesTheSignalsAsTheyWere) {
  struct sigaction before = {}, after = {};
  sigaction(SIGTERM, nullptr, &before);
  Open();
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  EXPECT_DEATH(
      {
        auto one = Open();
        auto two = Open();
      },
      "one screen is open at a time");
}

}  // namespace
}  // namespace mpsd::client::top
