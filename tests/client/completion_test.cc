// SPDX-License-Identifier: Apache-2.0
#include "client/completion.h"

#include <stdio.h>

#include <array>

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
  Answer("files\nzzverb\tnext to a file\n");
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
  Answer("files\nlist\tnext to a file\n");
  EXPECT_EQ(Zsh("sweep", ""), "files\nlist\nlist  next to a file\n");
}

TEST_F(CompletionTest, Fish) {
  if (!Has("fish")) GTEST_SKIP() << "no fish here";
  Answer("words\n01KAHAA\tRUNNING  moods\n01KAHAB\n");
  EXPECT_EQ(Fish("mpsctl --state-dir \"/x y\" show 01KAHA"),
            "01KAHAA\tRUNNING  moods\n01KAHAB\n");
  EXPECT_THAT(Asked(), HasSubstr("<--state-dir></x y><show><01KAHA>"));
  Fish("mpsctl ");
  EXPECT_EQ(Asked(), "<complete><--><>");
  Write("job.json", "{}");
  Answer("files\n");
  EXPECT_THAT(Fish("mpsctl submit jo"), HasSubstr("job.json"));
  Answer("files\njoin\tnext to a file\n");
  const std::string both = Fish("mpsctl sweep jo");
  EXPECT_THAT(both, AllOf(HasSubstr("job.json"), HasSubstr("join")));
}

// Through what the shells' scripts call.
class CompleteWordsTest : public ClientTest {
 protected:
  std::string Ask(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"complete", "--", "--state-dir", folder_.string()});
    const Result result = RunBare(words);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
};

TEST_F(CompleteWordsTest, VerbsAndOptions) {
  EXPECT_THAT(Ask({"can"}),
              AllOf(HasSubstr("words\ncancel\t"), Not(HasSubstr("list"))));
  EXPECT_THAT(Ask({""}), AllOf(HasSubstr("\nsubmit\t"), HasSubstr("\nlist\t"),
                               Not(HasSubstr("\ncomplete\t"))));
  EXPECT_THAT(Ask({"list", "--col"}), HasSubstr("words\n--columns\t"));
  EXPECT_THAT(Ask({"list", "--jso"}), HasSubstr("\n--json\tPrint JSON"));
  EXPECT_THAT(Ask({"context", "u"}), HasSubstr("words\nuse\t"));
  EXPECT_THAT(Ask({"admin", "dr"}), HasSubstr("words\ndrain\t"));
  EXPECT_EQ(Ask({"set", kId, "--note", "x"}), "words\n");
  EXPECT_EQ(Ask({"submit", "jo"}), "files\n");
  EXPECT_EQ(Ask({"download", kId, "--output", "x"}), "files\n");
  EXPECT_EQ(Ask({"completion", ""}), "words\nbash\nzsh\nfish\n");
  EXPECT_THAT(RunBare({"complete", "--"}).out, HasSubstr("\nsubmit\t"));
  EXPECT_EQ(RunBare({"complete"}).code, 2) << "a verb for shells alone";
}

TEST_F(CompleteWordsTest, IdsOfTheRightStates) {
  AddJob(kId, v1::JOB_STATE_RUNNING).set_name("two\nlines\x1b[2J");
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Ask({"show", "mo"}), "words\nmoods\tQUEUED  000000BB\n");
  EXPECT_EQ(Ask({"show", "@l"}), "words\n@last\n");
  EXPECT_THAT(Ask({"show", "moods", "mo"}), Not(HasSubstr("moods")));
  EXPECT_EQ(Ask({"show", "01"}),
            "words\n01KAH0000000000000000000BB\tQUEUED  moods\n"
            "01KAH0000000000000000000AA\tRUNNING  two lines\\x1b[2J\n");
  EXPECT_THAT(data().listed.back().states(), ElementsAre());
  EXPECT_EQ(Ask({"show", "01kah0000000000000000000b"}),
            "words\n01KAH0000000000000000000BB\tQUEUED  moods\n");
  EXPECT_THAT(Ask({"cancel", kOtherId, ""}), Not(HasSubstr(kOtherId)))
      << "it is there already";
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING));
  Ask({"retry", ""});
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED,
                          v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED));
  Ask({"delete", ""});
  EXPECT_EQ(data().listed.back().states_size(), 3);
  Ask({"download", ""});
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_SUCCEEDED));
}

TEST_F(CompleteWordsTest, JobsWithAResult) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_PROBE);
  AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_SMOKE);
  AddJob("01KAH0000000000000000000ZZ", v1::JOB_STATE_SUCCEEDED);
  const std::string probes = Ask({"plan", "job.json", "--probe-of", ""});
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_SUCCEEDED));
  EXPECT_THAT(probes, HasSubstr(kId));
  EXPECT_THAT(probes, Not(HasSubstr("ZZ"))) << "it trained";
  EXPECT_THAT(probes, Not(HasSubstr(kOtherId)));
  EXPECT_THAT(Ask({"check", "profile", ""}),
              AllOf(HasSubstr("files\n"), HasSubstr(kOtherId)));
}

TEST_F(CompleteWordsTest, ModelsThatNoShellRuns) {
  models().listed.resize(2);
  models().listed[0].set_name("tiny");
  models().listed[0].set_family("llama");
  models().listed[0].set_size_bytes(2'000'000);
  models().listed[1].set_name("$(touch ran)");
  EXPECT_EQ(Ask({"model", "rm", ""}), "words\ntiny\tllama  1.9 MiB\n");
  EXPECT_EQ(Ask({"list", "--model", "t"}), "words\ntiny\tllama  1.9 MiB\n");
}

TEST_F(CompleteWordsTest, FieldsAndTheirValues) {
  const std::string fields = Ask({"clone", kId, "--set", "training.learn"});
  EXPECT_EQ(fields.substr(0, fields.find('\t')),
            "parts\ntraining.learning_rate=");
  EXPECT_EQ(Ask({"clone", kId, "--set", "training.lr_scheduler_type=cosine"}),
            "words\ntraining.lr_scheduler_type=cosine\n"
            "training.lr_scheduler_type=cosine_with_restarts\n");
  EXPECT_EQ(Ask({"clone", kId, "--set=training.bf16=t"}),
            "words\n--set=training.bf16=true\n");
  EXPECT_EQ(Ask({"clone", kId, "--set", "training.none="}), "words\n");
  EXPECT_THAT(Ask({"clone", kId, "--unset", "lora.r"}),
              HasSubstr("words\nlora.r\t"));
}

TEST_F(CompleteWordsTest, ADaemonThatIsNotThereHasNone) {
  daemon_->Stop();
  EXPECT_EQ(Ask({"show", ""}), "words\n");
  daemon_->Start();
  Fail("List", StatusCode::INTERNAL, "no");
  EXPECT_EQ(Ask({"show", ""}), "words\n");
  EXPECT_THAT(
      RunBare({"complete", "--", "--server", "ssh://nobody@host", "show", ""}),
      Ends(testing::_, "words\n", ""));
}

TEST_F(CompleteWordsTest, ListsContinueAfterCommas) {
  EXPECT_EQ(Ask({"list", "--columns", "id,device_s"}),
            "parts\nid,device_seconds\n");
  EXPECT_EQ(Ask({"list", "--columns=own"}), "parts\n--columns=owner\n");
  EXPECT_EQ(Ask({"list", "--sort", "name,-eval"}), "parts\nname,-eval_loss\n");
  EXPECT_EQ(Ask({"list", "--sort", "-eval"}), "parts\n-eval_loss\n");
  EXPECT_EQ(Ask({"list", "--state", "c"}), "words\nCANCELLED\n");
  EXPECT_EQ(Ask({"init", "--task", "s"}), "words\nSEQ_CLS\n");
  EXPECT_THAT(Ask({"context", "use", "l"}), HasSubstr("words\nlocal\t"));
  EXPECT_THAT(Ask({"--context", "l"}), HasSubstr("words\nlocal\t"));
}

}  // namespace
}  // namespace mpsd::client
