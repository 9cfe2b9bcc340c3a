// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using AppTest = ClientTest;

TEST_F(AppTest, HelpNamesVerbsAndExitCodes) {
  const Result result = RunBare({"--help"});
  EXPECT_THAT(result, Ends(0, testing::_, ""));
  EXPECT_EQ(BareOut({"help"}), result.out);
  std::istringstream lines(result.out);
  int of_group = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(Width(line), 80) << line;
    of_group = line.starts_with("  ") ? of_group + 1 : 0;
    if (line == "Which daemon, the first of these that is given:") break;
    EXPECT_LE(of_group, 10) << line;
  }
  for (const char* text : {"\n  submit  ", "\n  set  ", "\n  check  ",
                           "\n  admin  ", "MPSD_CONTEXT", "Exit codes:"}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  EXPECT_EQ(BareOut({"--version"}).substr(0, 7), "mpsctl ");
}

TEST_F(AppTest, TheHelpOfAVerbIsItsOwnAndEndsWithExamples) {
  const std::string help = BareOut({"help", "submit"});
  EXPECT_EQ(help, BareOut({"submit", "--help"}));
  EXPECT_THAT(help, AllOf(HasSubstr("--idempotency-key"),
                          HasSubstr("\nExamples:\n  mpsctl submit job.json\n"),
                          Not(HasSubstr("Exit codes")),
                          Not(HasSubstr("Which daemon"))));
  EXPECT_THAT(BareOut({"help", "check"}), HasSubstr("\n  devices  "));
  EXPECT_THAT(BareOut({"help", "check", "batch"}), HasSubstr("--max-batch"));
  EXPECT_THAT(BareOut({"doctor", "--help"}),
              AllOf(HasSubstr("Exit codes: 0 all is well"),
                    HasSubstr("\n\nExamples:\n")));
}

TEST_F(AppTest, WhatIsNoVerbIsAnsweredWithOne) {
  for (const auto& [words, answer] : std::vector<std::pair<Args, std::string>>{
           {{"ps"}, "no verb ps; use `mpsctl list`"},
           {{"--server", "here", "rm", "-f", "X"},
            "no verb rm; use `mpsctl delete`"},
           {{"compare-devices", "job.json"},
            "no verb compare-devices; use `mpsctl check devices`"},
           {{"pin", "X"}, "no verb pin; use `mpsctl set ID --pin`"},
           {{"tail", "X"}, "no verb tail; use `mpsctl logs -f`"},
           {{"get", "X"}, "no verb get; use `mpsctl show`"},
           {{"--json", "sumbit", "job.json"},
            "no verb sumbit; did you mean `mpsctl submit`?"},
           {{"smokee"}, "no verb smokee; did you mean `mpsctl check smoke`?"},
           {{"frob\x1b"}, "no verb frob\\x1b"},
           {{"--frob"}, "no option --frob"},
           {{"help", "shwo"}, "no verb shwo; did you mean `mpsctl show`?"},
           {{}, "no verb given"}}) {
    EXPECT_THAT(
        RunBare(words),
        Fails(2, absl::StrCat("mpsctl: ", answer, "\nSee `mpsctl help`.\n")));
  }
  EXPECT_THAT(RunBare({"model", "ls"}),
              Fails(2,
                    "mpsctl: no verb model ls; model has push, pull, list, rm\n"
                    "See `mpsctl model --help`.\n"));
  EXPECT_THAT(RunBare({"download", "x", "--merge", "--output=y"}),
              Fails(2, HasSubstr("no option --merge; did you mean --merged?")));
  EXPECT_THAT(
      RunBare({"submit", "--prio", "5"}),
      Fails(2, HasSubstr("no option --prio; did you mean --priority?")));
  EXPECT_THAT(RunBare({"list", "--watch"}),
              Fails(2, HasSubstr("no option --watch; did you mean `mpsctl "
                                 "watch`?")));
  EXPECT_THAT(RunBare({"submit", "--priority", "high"}),
              Fails(2, HasSubstr("mpsctl: --priority: expected a whole number, "
                                 "not high\n")));
  EXPECT_THAT(RunBare({"admin", "token", "lend"}).err,
              EndsWith("See `mpsctl admin token --help`.\n"));
}

// Each word that is answered is no verb, and each answer is one.
TEST_F(AppTest, EveryAnswerIsAVerb) {
  for (const char* word : {"ls",
                           "ps",
                           "jobs",
                           "status",
                           "top",
                           "rm",
                           "run",
                           "train",
                           "stop",
                           "kill",
                           "checkpoints",
                           "move",
                           "pin",
                           "unpin",
                           "note",
                           "tag",
                           "smoke",
                           "profile",
                           "compare-devices",
                           "token",
                           "audit",
                           "drain",
                           "undrain",
                           "gc",
                           "models",
                           "version",
                           "whoami"}) {
    const std::string err = RunBare({word}).err;
    const size_t from = err.find("use `mpsctl ");
    ASSERT_NE(from, std::string::npos) << word << ": " << err;
    std::istringstream words(
        err.substr(from + 12, err.find('`', from + 5) - from - 12));
    Args help = {"help"}, options;
    for (std::string one; words >> one;) {
      if (one != "ID") (one[0] == '-' ? options : help).push_back(one);
    }
    const std::string page = BareOut(help);
    for (const std::string& one : options) EXPECT_THAT(page, HasSubstr(one));
  }
}

TEST_F(AppTest, WrongUse) {
  for (const Args& args : {Args{"show"},
                           {"show", "x", "--frobnicate"},
                           {"list", "--limit", "many"},
                           {"list", "--state", "ASLEEP"},
                           {"download"},
                           {"completion", "tcsh"}}) {
    EXPECT_THAT(RunBare(args),
                Ends(2, "", HasSubstr("See `mpsctl " + args[0] + " --help`")));
  }
}

TEST_F(AppTest, GlobalOptionsBeforeAndAfterTheVerb) {
  const std::string dir = folder_.string();
  for (const Args& args : {Args{"--state-dir", dir, "--json", "info"},
                           {"info", "--json", "--state-dir", dir},
                           {"--json", "info", "--server", socket_.string()}}) {
    EXPECT_EQ(BareOut(args).substr(0, 12), "{\"version\":\"");
  }
  setenv("MPSD_STATE_DIR", folder_.c_str(), 1);
  EXPECT_EQ(RunBare({"info"}).code, 0);
  setenv("MPSD_SERVER", "/nowhere/mpsd.sock", 1);
  EXPECT_THAT(RunBare({"info"}),
              Fails(3, HasSubstr("unix:/nowhere/mpsd.sock")));
}

TEST_F(AppTest, AWrongUrlOfSshIsReportedOnceByVerbsThatAskAlone) {
  for (const std::string verb : {"list", "info", "watch"}) {
    Args args = {"--server", "ssh://-oX", verb};
    if (verb == "watch") args.push_back(kId);
    EXPECT_THAT(RunBare(args), Fails(2, HasSubstr("ssh://[USER@]HOST")))
        << verb;
  }
  EXPECT_EQ(RunBare({"--server", "ssh://-oX", "schema"}).code, 0);
}

TEST_F(AppTest, UnreachableForEveryVerb) {
  const std::string job = Write("job.json", R"({"model": "m",
      "dataset": {"train": ["/absent/train.jsonl"]}})");
  daemon_->Stop();
  for (const Args& args :
       {Args{"submit", job},
        {"list"},
        {"queue"},
        {"show", kId},
        {"watch", kId},
        {"logs", kId},
        {"cancel", kId},
        {"download", kId, "--checkpoints"},
        {"download", kId, "--output", (folder_ / "o").string()},
        {"info"}}) {
    const Result result = RunVerb(args);
    EXPECT_EQ(result.code, 3) << args[0] << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr("Start it with")) << result.err;
  }
}

TEST_F(AppTest, NoSuchJobForEveryVerb) {
  for (const Args& args :
       {Args{"show", kId},
        {"watch", kId},
        {"logs", kId},
        {"cancel", kId},
        {"download", kId, "--checkpoints"},
        {"download", kId, "--output", (folder_ / "o").string()}}) {
    EXPECT_THAT(RunVerb(args),
                Fails(4,
                      "mpsctl: there is no job 01KAH0000000000000000000AA\n"
                      "List the jobs with `mpsctl list`.\n"))
        << args[0];
  }
}

}  // namespace
}  // namespace mpsd::client
