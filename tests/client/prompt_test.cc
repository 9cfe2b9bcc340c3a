// SPDX-License-Identifier: Apache-2.0
#include "client/prompt.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <thread>

#include "absl/time/clock.h"

namespace mpsd::client {
namespace {

// A terminal whose other end the test types on.
class PromptTest : public testing::Test {
 protected:
  PromptTest() {
    master_ = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_EQ(grantpt(master_), 0);
    EXPECT_EQ(unlockpt(master_), 0);
    device_ = ptsname(master_);
    // Keeps the terminal's settings while nobody else has it open.
    slave_ = open(device_.c_str(), O_RDWR | O_NOCTTY);
  }
  ~PromptTest() override {
    close(slave_);
    close(master_);
  }

  void Type(const std::string& keys) {
    EXPECT_EQ(write(master_, keys.data(), keys.size()),
              static_cast<ssize_t>(keys.size()));
  }
  // What the terminal shows until `end`.
  std::string ShownUntil(const std::string& end) {
    std::string shown;
    char c = 0;
    while (!shown.ends_with(end) && read(master_, &c, 1) == 1) shown += c;
    return shown;
  }
  tcflag_t Flags() const {
    termios settings;
    EXPECT_EQ(tcgetattr(slave_, &settings), 0);
    return settings.c_lflag;
  }
  // Types once the question stands there and the echo is off.
  absl::StatusOr<std::string> AskHidden(const std::string& keys) {
    const tcflag_t before = Flags();
    std::thread user([&] {
      ShownUntil("Token: ");
      while ((Flags() & ECHO) != 0) absl::SleepFor(absl::Milliseconds(1));
      Type(keys);
    });
    auto line = Ask("Token: ", Echo::kOff, device_.c_str());
    user.join();
    EXPECT_EQ(Flags(), before);
    return line;
  }

  int master_, slave_;
  std::string device_;
};

TEST_F(PromptTest, ALineWithEcho) {
  Type("yes\n");
  EXPECT_EQ(Ask("Trust it? ", Echo::kOn, device_.c_str()).value(), "yes");
}

TEST_F(PromptTest, ASecretIsNotShown) {
  EXPECT_EQ(AskHidden("secret\n").value(), "secret");
  const std::string shown = ShownUntil("\n");
  EXPECT_EQ(shown.find("secret"), std::string::npos);
}

TEST_F(PromptTest, ASecretCanBeCorrected) {
  EXPECT_EQ(AskHidden("sexx\x7f\x08"
                      "cret\r")
                .value(),
            "secret");
  EXPECT_EQ(AskHidden("wrong\x15"
                      "right\n")
                .value(),
            "right");
  EXPECT_EQ(AskHidden("\x7f\x7f"
                      "a\n")
                .value(),
            "a");
}

TEST_F(PromptTest, CtrlCAndCtrlDEndIt) {
  EXPECT_TRUE(absl::IsCancelled(AskHidden("sec\x03").status()));
  EXPECT_TRUE(absl::IsCancelled(AskHidden("\x04").status()));
}

TEST_F(PromptTest, AnEndlessLineTakesNoMemory) {
  std::string keys;
  for (int i = 0; i < 30; ++i) keys += std::string(1000, 'a');
  // In pieces that a terminal holds.
  std::thread user([&] {
    ShownUntil("Token: ");
    while ((Flags() & ECHO) != 0) absl::SleepFor(absl::Milliseconds(1));
    for (size_t at = 0; at < keys.size(); at += 1000) {
      Type(keys.substr(at, 1000));
      absl::SleepFor(absl::Milliseconds(2));
    }
    Type("\n");
  });
  const auto line = Ask("Token: ", Echo::kOff, device_.c_str());
  user.join();
  ASSERT_TRUE(line.ok());
  EXPECT_LE(line->size(), 4096);
}

TEST_F(PromptTest, SignalsRestoreTheTerminal) {
  const tcflag_t before = Flags();
  for (int signal : {SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          std::thread killer([&] {
            while ((Flags() & ECHO) != 0) absl::SleepFor(absl::Milliseconds(1));
            kill(getpid(), signal);
          });
          killer.detach();
          Ask("Token: ", Echo::kOff, device_.c_str()).IgnoreError();
        },
        testing::KilledBySignal(signal), "");
    EXPECT_EQ(Flags(), before);
  }
}

TEST_F(PromptTest, AQuestionCannotSteerTheTerminal) {
  Type("no\n");
  ASSERT_TRUE(Ask("a\x1b[2Jb? ", Echo::kOn, device_.c_str()).ok());
  EXPECT_EQ(ShownUntil("b? ").find('\x1b'), std::string::npos);
}

TEST_F(PromptTest, WithoutATerminal) {
  for (const char* device : {"/dev/null", "/nowhere/tty"}) {
    EXPECT_EQ(Ask("?", Echo::kOn, device).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace mpsd::client
