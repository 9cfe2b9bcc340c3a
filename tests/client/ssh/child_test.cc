// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/child.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "client/ssh/descriptor.h"

namespace mpsd::ssh {
namespace {

class ChildTest : public testing::Test {
 protected:
  ChildTest() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
    reading_ = Descriptor(ends[0]);
    writing_ = Descriptor(ends[1]);
  }
  std::unique_ptr<Child> Run(const std::string& script) {
    auto child = Child::Spawn({"sh", "-c", script}, nothing_.get(),
                              writing_.get(), writing_.get());
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  std::string Output() {
    writing_.Close();
    std::string text;
    char byte;
    while (read(reading_.get(), &byte, 1) == 1) text.push_back(byte);
    return text;
  }

  Descriptor nothing_{open("/dev/null", O_RDWR | O_CLOEXEC)};
  Descriptor reading_, writing_;
};

TEST_F(ChildTest, FoundInPathWithItsStatus) {
  const auto child = Run("echo said; exit 7");
  const auto status = child->WaitFor(absl::Seconds(60));
  ASSERT_TRUE(status);
  EXPECT_EQ(WEXITSTATUS(*status), 7);
  EXPECT_EQ(child->Poll(), status);
  EXPECT_EQ(Output(), "said\n");
}

TEST_F(ChildTest, AProgramThatIsNotThereIsNotFound) {
  const auto child = Child::Spawn({"no-such-program-of-mpsd"}, nothing_.get(),
                                  nothing_.get(), nothing_.get());
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ChildTest, CtrlCDoesNotReachIt) {
  const auto child = Run("kill -INT $$; echo alive");
  EXPECT_EQ(child->WaitFor(absl::Seconds(60)), 0);
  EXPECT_EQ(Output(), "alive\n");
}

TEST_F(ChildTest, StaysInTheGroupThatTheTerminalKnows) {
  const auto child = Run("sleep 100");
  EXPECT_EQ(getpgid(child->pid()), getpgrp());
}

TEST_F(ChildTest, GetsNoOtherDescriptor) {
  const Descriptor secret(fcntl(nothing_.get(), F_DUPFD_CLOEXEC, 50));
  const auto child = Run("[ -e /dev/fd/1 ] && [ ! -e /dev/fd/" +
                         std::to_string(secret.get()) + " ] && echo closed");
  EXPECT_TRUE(child->WaitFor(absl::Seconds(60)));
  EXPECT_EQ(Output(), "closed\n");
}

TEST_F(ChildTest, GoesWithTheObjectEvenIfItIgnoresTheSignal) {
  pid_t pid;
  {
    const auto child =
        Run("trap '' TERM; echo ready; while :; do sleep 1; done");
    char byte;
    EXPECT_EQ(read(reading_.get(), &byte, 1), 1);
    pid = child->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(ChildTest, AWaitEndsInTimeOrWhenItIsBroken) {
  const auto child = Run("sleep 100");
  EXPECT_FALSE(child->WaitFor(absl::Milliseconds(20)));
  const std::atomic<bool> broken = true;
  EXPECT_FALSE(child->WaitFor(absl::InfiniteDuration(), &broken));
}

}  // namespace
}  // namespace mpsd::ssh
