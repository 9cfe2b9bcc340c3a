// SPDX-License-Identifier: Apache-2.0
#include "server/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace mpsd {
namespace {

// Each in a process of its own: the signals stay blocked for its life.
void Nothing() {}

TEST(SignalsDeathTest, TheFirstIsReturned) {
  for (int number : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        {
          BlockSignals();
          kill(getpid(), number);
          _exit(AwaitShutdownSignal(Nothing) == number ? 7 : 8);
        },
        testing::ExitedWithCode(7), "");
  }
}

TEST(SignalsDeathTest, TheSecondEndsTheProcess) {
  EXPECT_EXIT(
      {
        BlockSignals();
        kill(getpid(), SIGTERM);
        AwaitShutdownSignal(Nothing);
        kill(getpid(), SIGHUP);  // does nothing
        kill(getpid(), SIGINT);
        sleep(60);
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(SignalsDeathTest, AHangupReloadsAndNeverKills) {
  EXPECT_EXIT(
      {
        BlockSignals();
        int reloads = 0;
        kill(getpid(), SIGHUP);
        const int number = AwaitShutdownSignal(
            [&] { kill(getpid(), ++reloads < 3 ? SIGHUP : SIGTERM); });
        _exit(number == SIGTERM && reloads == 3 ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

// nohup mpsd
TEST(SignalsDeathTest, AnIgnoredHangupStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        BlockSignals();
        int reloads = 0;
        kill(getpid(), SIGHUP);
        kill(getpid(), SIGTERM);
        const int number = AwaitShutdownSignal([&] { ++reloads; });
        _exit(number == SIGTERM && reloads == 0 ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, ABrokenPipeKillsNobody) {
  EXPECT_EXIT(
      {
        BlockSignals();
        raise(SIGPIPE);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mpsd
