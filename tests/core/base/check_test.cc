// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "core/base/child_wait.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/line_channel.h"
#include "core/base/monitor.h"
#include "core/base/sha256.h"
#include "tests/core/scratch_folder.h"

extern char** environ;

#ifdef __linux__
namespace {
std::atomic<int> g_waited_by = -1;
}

// Replaces the C library's, by which std::condition_variable waits.
extern "C" int pthread_cond_clockwait(pthread_cond_t* condition,
                                      pthread_mutex_t* mutex, clockid_t clock,
                                      const timespec* end) {
  g_waited_by = clock;
  static const auto real = reinterpret_cast<decltype(&pthread_cond_clockwait)>(
      dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  return real(condition, mutex, clock, end);
}
#endif

namespace mpsd::base {
namespace {

// A failure in a constant expression is a compile error.
constexpr int FirstOf(int a, int b) {
  Check(a != b, "the two differ");
  CheckEqual(a - b, -1, "their difference");
  CheckLess(a, b, "their order");
  CheckAtMost(a, b, "their order");
  CheckIndex(a, b, "the first");
  return a;
}
static_assert(FirstOf(1, 2) == 1);

std::string Here(int line) {
  return "check_test.cc:" + std::to_string(line) + ": check failed: ";
}

TEST(CheckDeathTest, AFailureNamesItsPlaceAndItsInvariant) {
  EXPECT_EXIT(Check(false, "Start is called once"),
              testing::KilledBySignal(SIGABRT),
              Here(__LINE__ - 2) + "Start is called once\n");
}

TEST(CheckDeathTest, TwoOperandsArePrintedAndALongInvariantIsCut) {
  EXPECT_DEATH(CheckEqual(2, size_t{3}, "ends and samples"),
               Here(__LINE__ - 1) + "ends and samples: 2 == 3\n");
  EXPECT_DEATH(CheckLess(3, 3, "the row"), "the row: 3 < 3\n");
  EXPECT_DEATH(CheckAtMost(4, 3, "the row"), "the row: 4 <= 3\n");
  EXPECT_DEATH(CheckIndex(3, 3, "the row"), "the row: 3 < 3\n");
  EXPECT_DEATH(CheckIndex(-1, 3, "the row"), "the row: -1 >= 0\n");
  const std::string longest(2000, 'x');
  EXPECT_DEATH(Check(false, longest.c_str()), "xxxx\n$");
}

// The pipe is full and has no active reader: the process ends all the
// same.
TEST(CheckDeathTest, AFullStderrDelaysTheEndByASecondAtMost) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (pipe(ends) != 0) _exit(1);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        const std::string bytes(4096, 'x');
        while (write(ends[1], bytes.data(), bytes.size()) > 0) {
        }
        fcntl(ends[1], F_SETFL, 0);
        dup2(ends[1], STDERR_FILENO);
        alarm(30);  // SIGALRM would be another signal than the one expected
        Check(false, "no one reads this");
      },
      testing::KilledBySignal(SIGABRT), "");
}

TEST(ErrnoOf, IsTheErrnoOfTheStatusNotOfItsText) {
  const absl::Status full = ErrnoStatus(ENOSPC, "/out/weights");
  EXPECT_EQ(ErrnoOf(full), ENOSPC);
  const absl::StatusOr<int> handed_on = full;
  EXPECT_EQ(ErrnoOf(handed_on.status()), ENOSPC);
  EXPECT_EQ(ErrnoOf(absl::OkStatus()), 0);
  // A cell of a user's data is quoted in such messages.
  EXPECT_EQ(ErrnoOf(absl::InvalidArgumentError(
                "train.csv:3: the label 'No space left on device'")),
            0);
}

TEST(IsMachineFault, SeparatesTheMachineFromTheJob) {
  for (int error : {ENOSPC, EDQUOT, EMFILE, ENFILE, EIO, EROFS}) {
    EXPECT_TRUE(IsMachineFault(error)) << error;
  }
  for (int error : {0, ENOENT, EACCES, EINVAL, EISDIR, ENOMEM, EPIPE}) {
    EXPECT_FALSE(IsMachineFault(error)) << error;
  }
  EXPECT_EQ(ErrnoOf(ReadFile("/no/such/file").status()), ENOENT);
  EXPECT_EQ(ErrnoOf(ReadFile("/").status()), EISDIR);
}

// Pieces that `work` counts.
template <typename Work>
int64_t PiecesOf(Work work) {
  const int64_t before = WorkCount();
  work();
  return WorkCount() - before;
}

TEST(WorkCountTest, EveryThreadsWorkCounts) {
  EXPECT_EQ(PiecesOf([] {
              std::vector<std::thread> threads;
              for (int i = 0; i < 4; ++i) {
                threads.emplace_back([] {
                  for (int j = 0; j < 1000; ++j) CountWork();
                });
              }
              for (std::thread& thread : threads) thread.join();
            }),
            4000);
  EXPECT_EQ(PiecesOf([] {}), 0);
}

// A model of many gigabytes on a slow disk is one file.
TEST(WorkCountTest, AFileThatIsHashedCountsByParts) {
  const auto path = FreshFolder("work_count") / "file";
  std::ofstream(path) << std::string(20 << 20, 'x');
  EXPECT_GE(PiecesOf([&] { EXPECT_TRUE(Sha256File(path).ok()); }), 3);
  EXPECT_GE(PiecesOf([&] { EXPECT_TRUE(ReadFile(path).ok()); }), 1);
  EXPECT_GE(PiecesOf([&] { EXPECT_TRUE(WriteFileAtomic(path, "y").ok()); }), 1);
  EXPECT_EQ(PiecesOf([&] { EXPECT_FALSE(ReadFile(path / "none").ok()); }), 0);
}

class LineChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    a_ = std::make_unique<LineChannel>(ends[0]);
    b_ = std::make_unique<LineChannel>(ends[1]);
  }
  std::unique_ptr<LineChannel> a_, b_;
};

TEST_F(LineChannelTest, ALineOfSeveralMegabytesPasses) {
  const std::string line(5 << 20, 'x');
  std::thread sender([&] { EXPECT_TRUE(a_->Send(line).ok()); });
  auto received = b_->Receive();
  sender.join();
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(**received, line);
}

TEST_F(LineChannelTest, ALineOverTheLimitIsRefused) {
  std::thread sender([&] {
    a_->Send(std::string(LineChannel::kMaxLine + 2, 'x')).IgnoreError();
  });
  EXPECT_TRUE(absl::IsInvalidArgument(b_->Receive().status()));
  b_.reset();  // frees the sender
  sender.join();
}

TEST_F(LineChannelTest, NewlinesTimeoutsAndALostPeerAreErrors) {
  EXPECT_TRUE(absl::IsInvalidArgument(a_->Send("a\nb")));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(b_->Receive(absl::ZeroDuration()).status()));
  b_.reset();
  EXPECT_TRUE(absl::IsUnavailable(a_->Send("x")));
}

TEST_F(LineChannelTest, EndOfStreamAfterTheLastWholeLine) {
  ASSERT_TRUE(a_->Send("whole").ok());
  ASSERT_EQ(write(a_->fd(), "cut", 3), 3);
  a_.reset();
  EXPECT_EQ(**b_->Receive(), "whole");
  EXPECT_EQ(*b_->Receive(), std::nullopt);
}

TEST_F(LineChannelTest, LinesOfSeveralSendersDoNotMix) {
  constexpr int kEach = 200;
  std::vector<std::thread> senders;
  for (const std::string& text :
       {std::string(3'000, 'a'), std::string(5'000, 'b')}) {
    senders.emplace_back([this, text] {
      for (int i = 0; i < kEach; ++i) ASSERT_TRUE(a_->Send(text).ok());
    });
  }
  std::set<std::string> seen;
  for (int i = 0; i < 2 * kEach; ++i) seen.insert(**b_->Receive());
  for (std::thread& t : senders) t.join();
  EXPECT_EQ(seen, (std::set<std::string>{std::string(3'000, 'a'),
                                         std::string(5'000, 'b')}));
}

class ExchangeTest : public testing::Test {
 protected:
  fs::path Make(const std::string& name, const std::string& content) {
    const fs::path path = folder_ / name;
    fs::create_directory(path);
    std::ofstream(path / "file") << content;
    return path;
  }
  static std::string Content(const fs::path& folder) {
    return ReadFile(folder / "file").value_or("nothing");
  }

  const fs::path folder_ = FreshFolder("exchange");
};

TEST_F(ExchangeTest, TwoFoldersChangePlaces) {
  const fs::path a = Make("a", "one"), b = Make("b", "two");
  ASSERT_TRUE(ExchangePaths(a, b).ok());
  EXPECT_EQ(Content(a), "two");
  EXPECT_EQ(Content(b), "one");
  {
    const fs::path a = Make("a", "one");
    EXPECT_TRUE(absl::IsNotFound(ExchangePaths(a, folder_ / "none")));
    EXPECT_EQ(Content(a), "one");
  }
}

TEST_F(ExchangeTest, WhoLooksAlwaysFindsOneOfThem) {
  const fs::path a = Make("a", "one"), b = Make("b", "two");
  std::atomic<bool> done{false};
  std::atomic<int> missed{0};
  std::thread looks([&] {
    while (!done) missed += !fs::exists(b / "file");
  });
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(ExchangePaths(a, b).ok());
  done = true;
  looks.join();
  EXPECT_EQ(missed, 0);
}

pid_t Start(const char* script) {
  const char* words[] = {"sh", "-c", script, nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, "/bin/sh", nullptr, nullptr,
                        const_cast<char**>(words), environ),
            0);
  return pid;
}

TEST(ChildWait, ReportsTheStatusOnceTheChildHasEnded) {
  const pid_t pid = Start("exit 7");
  const std::optional<int> status =
      AwaitEnd([&] { return ReapIfEnded(pid); }, absl::Seconds(30));
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(WIFEXITED(*status));
  EXPECT_EQ(WEXITSTATUS(*status), 7);
  // The child is reaped: only its end is known from now on.
  EXPECT_EQ(ReapIfEnded(pid), 255 << 8);
}

TEST(ChildWait, WaitsNoLongerThanItMay) {
  const pid_t pid = Start("exec sleep 100");
  EXPECT_EQ(ReapIfEnded(pid), std::nullopt);
  const auto poll = [&] { return ReapIfEnded(pid); };
  EXPECT_EQ(AwaitEnd(poll, absl::Milliseconds(5)), std::nullopt);
  EXPECT_EQ(AwaitEnd(poll, absl::InfiniteDuration(), [] { return true; }),
            std::nullopt);
  kill(pid, SIGKILL);
  const std::optional<int> status = AwaitEnd(poll, absl::Seconds(30));
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(WIFSIGNALED(*status));
}

TEST(MonitorTest, AWaitEndsByTheSteadyClockOrWithAChange) {
  Event event;
  EXPECT_FALSE(event.AwaitFor(absl::Milliseconds(1)));
#ifdef __linux__
  EXPECT_EQ(g_waited_by, CLOCK_MONOTONIC);
#endif
  std::atomic<bool> set = false;
  PeriodicCall call(absl::Milliseconds(20), [&] {
    set = true;
    event.Set();
    return false;
  });
  EXPECT_TRUE(event.AwaitFor(absl::InfiniteDuration()));
  EXPECT_TRUE(set);
}

// As the ticker's: a thread changes what another waits for, and waits itself.
TEST(MonitorTest, AWaitShowsOthersTheChangesBeforeIt) {
  Monitor monitor;
  int turn = 0;
  std::thread other([&] {
    MonitorLock lock(&monitor);
    EXPECT_TRUE(monitor.AwaitFor(absl::Minutes(1), [&] { return turn == 1; }));
    turn = 2;
  });
  {
    MonitorLock lock(&monitor);
    turn = 1;
    EXPECT_TRUE(monitor.AwaitFor(absl::Minutes(1), [&] { return turn == 2; }));
  }
  other.join();
}

TEST(AwakeTime, AdvancesNoFasterThanTheClockThatCountsSleep) {
  const absl::Duration sleep_too = Clock::Real().Monotonic();
  const absl::Duration before = AwakeTime();
  usleep(2000);
  const absl::Duration passed = AwakeTime() - before;
  EXPECT_GE(passed, absl::Milliseconds(2));
  EXPECT_LE(passed, Clock::Real().Monotonic() - sleep_too);
  EXPECT_LE(AwakeTime(), Clock::Real().Monotonic() + absl::Seconds(1));
}

}  // namespace
}  // namespace mpsd::base
