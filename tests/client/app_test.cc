// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using AppTest = ClientTest;

TEST_F(AppTest, HelpNamesVerbsAndExitCodes) {
  const Result result = RunBare({"--help"});
  EXPECT_THAT(result, Ends(0, testing::_, ""));
  for (const char* verb :
       {"submit", "list",   "show",    "watch",        "plot",
        "logs",   "cancel", "retry",   "checkpoints",  "download",
        "import", "merge",  "schema",  "info",         "completion",
        "login",  "logout", "context", "MPSD_CONTEXT", "Exit codes:"}) {
    EXPECT_THAT(result.out, HasSubstr(verb)) << verb;
  }
  EXPECT_THAT(BareOut({"submit", "--help"}), HasSubstr("--idempotency-key"));
  EXPECT_EQ(BareOut({"--version"}).substr(0, 7), "mpsctl ");
}

TEST_F(AppTest, WrongUse) {
  EXPECT_THAT(
      RunBare({"--json", "sumbit", "job.json"}),
      Fails(2, testing::MatchesRegex("mpsctl: there is no verb 'sumbit'; the "
                                     "verbs are init, [a-z, -]*, completion\n"
                                     "See `mpsctl --help`.\n")));
  EXPECT_THAT(RunBare({}),
              Fails(2, "mpsctl: no verb given\nSee `mpsctl --help`.\n"));
  for (const Args& args : {Args{"show"},
                           {"show", "x", "--frobnicate"},
                           {"list", "--limit", "many"},
                           {"list", "--state", "ASLEEP"},
                           {"download", "x"},
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

TEST_F(AppTest, AWrongUrlOfSshIsToldOnceAndOnlyToVerbsThatAsk) {
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
        {"checkpoints", kId},
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
        {"checkpoints", kId},
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
