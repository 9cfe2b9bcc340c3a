// SPDX-License-Identifier: Apache-2.0
#include "client/completion.h"

#include <stdio.h>

#include <array>
#include <cstdlib>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// The scripts in the real shells, with a stand-in for mpsctl that notes what it
// is asked and answers what the test says.
class CompletionTest : public ClientTest {
 protected:
  static bool Has(const std::string& shell) {
    return system(("command -v " + shell + " >/dev/null 2>&1").c_str()) == 0;
  }

  std::string Run(const std::string& command) {
    FILE* pipe =
        popen(("cd " + folder_.string() + " && " + command).c_str(), "r");
    std::array<char, 4096> buffer;
    const size_t size = fread(buffer.data(), 1, buffer.size(), pipe);
    EXPECT_EQ(pclose(pipe), 0) << command;
    return {buffer.data(), size};
  }

  std::string Script(const std::string& shell) {
    return Write("completion." + shell, RunBare({"completion", shell}).out);
  }
  void Answer(const std::string& text) { Write("answer", text); }
  std::string Asked() {
    const std::string text = Read(folder_ / "asked");
    std::filesystem::remove(folder_ / "asked");
    return text;
  }

  // `words`: as bash breaks the line.
  std::string Bash(const std::string& words) {
    return Run(
        "bash " +
        Write("driver.bash",
              "source " + Script("bash") +
                  "\nmpsctl() { printf '<%s>' \"$@\" > asked; cat answer; }\n"
                  "COMP_WORDS=(mpsctl " +
                  words +
                  ")\n"
                  "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                  "_mpsctl\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"));
  }
  // `words`: before the one that is typed, which `prefix` is.
  std::string Zsh(const std::string& words, const std::string& prefix) {
    return Run(
        "zsh -f " +
        Write("driver.zsh",
              "compdef() { }\n_files() { echo files }\n"
              "compadd() { while [[ $1 != -a ]]; do [[ $1 == -S ]] && "
              "print -r -- \"suffix<$2>\"; shift; done; "
              "print -rl -- ${(P)2}; print -rl -- $shown }\n"
              "source " +
                  Script("zsh") +
                  "\nmpsctl() { printf '<%s>' \"$@\" > asked; cat answer }\n"
                  "words=(mpsctl " +
                  words + " '" + prefix +
                  "')\n"
                  "CURRENT=$#words; PREFIX='" +
                  prefix + "'\n_mpsctl\n"));
  }
  std::string Fish(const std::string& line) {
    return Run("HOME=. fish --no-config " +
               Write("driver.fish",
                     "function mpsctl; printf '<%s>' $argv > asked; "
                     "cat answer; end\n"
                     "source " +
                         Script("fish") + "\ncomplete -C '" + line + "'\n"));
  }
};

TEST_F(CompletionTest, Bash) {
  Answer("words\n01KAHAA\tRUNNING  moods\n01KAHAB\n");
  EXPECT_EQ(Bash("--state-dir '/x y' show 01KAHA"), "01KAHAA\n01KAHAB\n");
  EXPECT_EQ(Asked(), "<complete><--><--state-dir></x y><show><01KAHA>");
  Bash("''");
  EXPECT_EQ(Asked(), "<complete><--><>");
  Write("zz b.json", "{}");
  Answer("files\n");
  EXPECT_EQ(Bash("submit zz"), "zz b.json\n");
  Answer("files\nzzverb\tbeside a file\n");
  EXPECT_EQ(Bash("sweep zz"), "zzverb\nzz b.json\n");
}

// Readline breaks words at '=' and ':', and wants the last piece alone.
TEST_F(CompletionTest, BashBreaksWords) {
  Answer("words\ntraining.bf16=true\n");
  EXPECT_EQ(Bash("clone 01K --set training.bf16 = t"), "true\n");
  EXPECT_EQ(Asked(), "<complete><--><clone><01K><--set><training.bf16=t>");
  EXPECT_EQ(Bash("clone 01K --set training.bf16 ="), "true\n");
  EXPECT_EQ(Asked(), "<complete><--><clone><01K><--set><training.bf16=>");
  Answer("parts\n--columns=id,name\n");
  EXPECT_EQ(Bash("list --columns = id,n"), "id,name\n");
}

// What a daemon calls its models is no program for a shell.
TEST_F(CompletionTest, NoShellRunsAWord) {
  Answer("words\n$(touch${IFS}ran)`touch ran`\t$(touch ran)\n");
  Bash("show 01");
  if (Has("zsh")) Zsh("show", "01");
  if (Has("fish")) Fish("mpsctl show 01");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ran"));
}

TEST_F(CompletionTest, Zsh) {
  if (!Has("zsh")) GTEST_SKIP() << "no zsh here";
  Answer("words\n01KAHAA\tRUNNING  moods\n01KAHAB\n");
  EXPECT_EQ(Zsh("--state-dir '/x y' show", "01KAHA"),
            "01KAHAA\n01KAHAB\n01KAHAA  RUNNING  moods\n01KAHAB\n");
  EXPECT_EQ(Asked(), "<complete><--><--state-dir></x y><show><01KAHA>");
  Answer("parts\nid,\n");
  EXPECT_EQ(Zsh("list --columns", "i"), "suffix<>\nid,\nid,\n");
  Zsh("", "");
  EXPECT_EQ(Asked(), "<complete><--><>");
  Answer("files\n");
  EXPECT_EQ(Zsh("submit", "a"), "files\n");
  Answer("files\nlist\tbeside a file\n");
  EXPECT_EQ(Zsh("sweep", ""), "files\nlist\nlist  beside a file\n");
}

TEST_F(CompletionTest, Fish) {
  if (!Has("fish")) GTEST_SKIP() << "no fish here";
  Answer("words\n01KAHAA\tRUNNING  moods\n01KAHAB\n");
  EXPECT_EQ(Fish("mpsctl --state-dir \"/x y\" show 01KAHA"),
            "01KAHAA\tRUNNING  moods\n01KAHAB\n");
  EXPECT_THAT(Asked(), testing::HasSubstr("<--state-dir></x y><show><01KAHA>"));
  Fish("mpsctl ");
  EXPECT_EQ(Asked(), "<complete><--><>");
  Write("job.json", "{}");
  Answer("files\n");
  EXPECT_THAT(Fish("mpsctl submit jo"), testing::HasSubstr("job.json"));
  Answer("files\njoin\tbeside a file\n");
  const std::string both = Fish("mpsctl sweep jo");
  EXPECT_THAT(both, testing::HasSubstr("job.json"));
  EXPECT_THAT(both, testing::HasSubstr("join"));
}

TEST_F(CompletionTest, UnknownShell) {
  EXPECT_EQ(RunBare({"completion", "tcsh"}).code, 2);
}

}  // namespace
}  // namespace mpsd::client
