// SPDX-License-Identifier: Apache-2.0
#include "core/base/child_wait.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <optional>

extern char** environ;

namespace mpsd::base {
namespace {

pid_t Start(const char* script) {
  const char* words[] = {"sh", "-c", script, nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, "/bin/sh", nullptr, nullptr,
                        const_cast<char**>(words), environ),
            0);
  return pid;
}

TEST(ChildWait, TellsTheStatusOnceTheChildHasEnded) {
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

}  // namespace
}  // namespace mpsd::base
