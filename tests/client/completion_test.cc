// SPDX-License-Identifier: Apache-2.0
#include "client/completion.h"

#include <stdio.h>

#include <array>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class CompletionTest : public ClientTest {
 protected:
  // What bash offers for a command line whose last word is being typed.
  // `mpsctl` is a stand-in that prints its arguments in place of ids.
  std::string Bash(const std::string& words) {
    const std::string script =
        Write("completion.bash", RunBare({"completion", "bash"}).out);
    const std::string driver =
        Write("driver.bash",
              "source " + script +
                  "\nmpsctl() { printf '%s\\n' 01KAHAA 01KAHBB \"$*\"; }\n"
                  "COMP_WORDS=(mpsctl " +
                  words +
                  ")\n"
                  "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                  "_mpsctl\n"
                  "echo \"${COMPREPLY[*]}\"\n");
    FILE* pipe =
        popen(("cd " + folder_.string() + " && bash " + driver).c_str(), "r");
    std::array<char, 4096> buffer;
    const size_t size = fread(buffer.data(), 1, buffer.size(), pipe);
    EXPECT_EQ(pclose(pipe), 0);
    return {buffer.data(), size};
  }
};

TEST_F(CompletionTest, BashVerbs) {
  EXPECT_EQ(Bash("su"), "submit\n");
  EXPECT_EQ(Bash("pl"), "plot\n");
  EXPECT_EQ(Bash("--json c"), "cancel checkpoints completion\n");
  EXPECT_EQ(Bash("--state-dir /x wa"), "watch\n");
}

TEST_F(CompletionTest, BashOptionsOfTheVerbAndGlobal) {
  EXPECT_EQ(Bash("submit --de"), "--detach\n");
  EXPECT_EQ(Bash("plot --met"), "--metric\n");
  EXPECT_EQ(Bash("submit --se"), "--server\n");
  EXPECT_EQ(Bash("list --de"), "\n");
}

TEST_F(CompletionTest, BashIdsFromTheSameDaemon) {
  EXPECT_EQ(Bash("show 01KAHA"), "01KAHAA\n");
  EXPECT_EQ(Bash("plot 01KAHA"), "01KAHAA\n");
  EXPECT_EQ(Bash("--state-dir /x show ''"),
            "01KAHAA 01KAHBB --state-dir /x list --quiet\n");
}

TEST_F(CompletionTest, BashFiles) {
  Write("job.json", "{}");
  EXPECT_EQ(Bash("submit jo"), "job.json\n");
  EXPECT_EQ(Bash("download 01KAHAA --output jo"), "job.json\n");
}

TEST_F(CompletionTest, BashShells) { EXPECT_EQ(Bash("completion z"), "zsh\n"); }

TEST_F(CompletionTest, EveryShellKnowsEveryVerbAndOption) {
  for (const std::string& shell : CompletionShells()) {
    const Result result = RunBare({"completion", shell});
    EXPECT_EQ(result.code, 0);
    for (const char* word :
         {"submit", "list", "show", "watch", "logs", "cancel", "retry",
          "checkpoints", "download", "schema", "info", "completion",
          "idempotency-key", "follow", "force", "state-dir", "anyway",
          "markdown", "list --quiet"}) {
      EXPECT_NE(result.out.find(word), std::string::npos)
          << shell << ": " << word;
    }
    for (const char* left :
         {"VALUE_OPTIONS", "GLOBAL_OPTIONS", "VERB_CASES", "VERBS"}) {
      EXPECT_EQ(result.out.find(left), std::string::npos) << shell;
    }
  }
}

TEST_F(CompletionTest, DescriptionsAreOneLine) {
  for (const char* shell : {"zsh", "fish"}) {
    const Result result = RunBare({"completion", shell});
    EXPECT_NE(result.out.find("its socket (else"), std::string::npos) << shell;
  }
}

TEST_F(CompletionTest, UnknownShell) {
  EXPECT_EQ(RunBare({"completion", "tcsh"}).code, 2);
}

}  // namespace
}  // namespace mpsd::client
