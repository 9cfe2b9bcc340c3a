// SPDX-License-Identifier: Apache-2.0
#include "server/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace mpsd {
namespace {

// Each in a process of its own: the signals stay blocked for its life.
TEST(SignalsDeathTest, TheFirstIsReturned) {
  for (int number : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EXIT(
        {
          BlockShutdownSignals();
          kill(getpid(), number);
          _exit(AwaitShutdownSignal() == number ? 7 : 8);
        },
        testing::ExitedWithCode(7), "");
  }
}

TEST(SignalsDeathTest, TheSecondEndsTheProcess) {
  EXPECT_EXIT(
      {
        BlockShutdownSignals();
        kill(getpid(), SIGTERM);
        AwaitShutdownSignal();
        kill(getpid(), SIGINT);
        sleep(60);
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(SignalsDeathTest, ABrokenPipeKillsNobody) {
  EXPECT_EXIT(
      {
        BlockShutdownSignals();
        raise(SIGPIPE);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mpsd
