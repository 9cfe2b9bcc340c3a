// SPDX-License-Identifier: Apache-2.0
// tests/e2e/top_test.py tries the verb in a real terminal.
#include <unistd.h>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class TopTest : public ClientTest {};

TEST_F(TopTest, NamesOtherVerbsWhereThereIsNoTerminal) {
  const Result result = RunVerb({"top"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "mpsctl: top needs a terminal\n"
            "Without a terminal use `mpsctl list`, `mpsctl info` and `mpsctl "
            "watch ID`, with --json for programs.\n");
}

TEST_F(TopTest, PrintsNoJson) {
  terminal_.is_tty = true;
  const Result result = RunVerb({"--json", "top"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("mpsctl: top prints no JSON\n"), std::string::npos);
}

TEST_F(TopTest, NeedsADaemonToBeginWith) {
  terminal_.is_tty = true;
  daemon_->Stop();
  const Result result = RunVerb({"top"});
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.err.find("cannot reach mpsd"), std::string::npos);
}

TEST_F(TopTest, NeedsATerminalToReadKeysFrom) {
  terminal_.is_tty = true;
  const int input = dup(STDIN_FILENO);
  ASSERT_NE(freopen("/dev/null", "r", stdin), nullptr);
  const Result result = RunVerb({"top"});
  dup2(input, STDIN_FILENO);
  close(input);
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("mpsctl: this is no terminal\n"),
            std::string::npos);
}

}  // namespace
}  // namespace mpsd::client
