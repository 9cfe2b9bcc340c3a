// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class AppTest : public ClientTest {
 protected:
  bool Contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(AppTest, HelpNamesVerbsAndExitCodes) {
  const Result result = RunBare({"--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* verb :
       {"submit", "list",   "show",    "watch",        "plot",
        "logs",   "cancel", "retry",   "checkpoints",  "download",
        "import", "merge",  "schema",  "info",         "completion",
        "login",  "logout", "context", "MPSD_CONTEXT", "Exit codes:"}) {
    EXPECT_TRUE(Contains(result.out, verb)) << verb;
  }
}

TEST_F(AppTest, HelpOfAVerb) {
  const Result result = RunBare({"submit", "--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(Contains(result.out, "--idempotency-key"));
}

TEST_F(AppTest, Version) {
  const Result result = RunBare({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.substr(0, 7), "mpsctl ");
}

TEST_F(AppTest, UnknownVerbNamesThoseThereAre) {
  const Result result = RunBare({"--json", "sumbit", "job.json"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              testing::MatchesRegex("mpsctl: there is no verb 'sumbit'; the "
                                    "verbs are submit, [a-z, -]*, completion\n"
                                    "See `mpsctl --help`.\n"));
}

TEST_F(AppTest, NoVerb) {
  const Result result = RunBare({});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "mpsctl: no verb given\nSee `mpsctl --help`.\n");
}

TEST_F(AppTest, WrongUseOfAVerb) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"show"},
                                               {"show", "x", "--frobnicate"},
                                               {"list", "--limit", "many"},
                                               {"list", "--state", "ASLEEP"},
                                               {"download", "x"},
                                               {"completion", "tcsh"}}) {
    const Result result = RunBare(args);
    EXPECT_EQ(result.code, 2) << args[0];
    EXPECT_TRUE(Contains(result.err, "See `mpsctl " + args[0] + " --help`"))
        << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(AppTest, GlobalOptionsBeforeAndAfterTheVerb) {
  const std::string dir = folder_.string();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--state-dir", dir, "--json", "info"},
        {"info", "--json", "--state-dir", dir},
        {"--json", "info", "--server", socket_.string()}}) {
    const Result result = RunBare(args);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out.substr(0, 12), "{\"version\":\"");
  }
}

TEST_F(AppTest, TheEnvironmentNamesTheDaemon) {
  setenv("MPSD_STATE_DIR", folder_.c_str(), 1);
  EXPECT_EQ(RunBare({"info"}).code, 0);
  setenv("MPSD_SERVER", "/nowhere/mpsd.sock", 1);
  const Result result = RunBare({"info"});
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(Contains(result.err, "unix:/nowhere/mpsd.sock"));
}

// Takes nothing, as a full disk.
class Full : public std::streambuf {};

TEST_F(AppTest, OutputThatCannotBeWrittenIsAnError) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"info"}, {"--help"}, {"list", "--json"}}) {
    std::vector<std::string> full = {"--state-dir", folder_.string()};
    full.insert(full.end(), args.begin(), args.end());
    Full nowhere;
    std::ostream out(&nowhere);
    std::ostringstream err;
    AddJob(kId, v1::JOB_STATE_QUEUED);
    EXPECT_EQ(client::Run(full, out, err, terminal_), 6) << args[0];
    EXPECT_TRUE(Contains(err.str(), "cannot write all of the output"));
  }
}

TEST_F(AppTest, AWrongUrlOfSshIsToldOnceAndOnlyToVerbsThatAsk) {
  for (const std::string verb : {"list", "info", "watch"}) {
    std::vector<std::string> args = {"--server", "ssh://-oX", verb};
    if (verb == "watch") args.push_back(kId);
    const Result result = RunBare(args);
    EXPECT_EQ(result.code, 2) << verb;
    EXPECT_THAT(result.err, testing::HasSubstr("ssh://[USER@]HOST")) << verb;
  }
  EXPECT_EQ(RunBare({"--server", "ssh://-oX", "schema"}).code, 0);
}

TEST_F(AppTest, UnreachableForEveryVerb) {
  const std::string job = Write("job.json", R"({"model": "m",
      "dataset": {"train": ["/absent/train.jsonl"]}})");
  daemon_->Stop();
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"submit", job},
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
    EXPECT_TRUE(Contains(result.err, "Start it with")) << result.err;
  }
}

TEST_F(AppTest, NoSuchJobForEveryVerb) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"show", kId},
        {"watch", kId},
        {"logs", kId},
        {"cancel", kId},
        {"checkpoints", kId},
        {"download", kId, "--output", (folder_ / "o").string()}}) {
    const Result result = RunVerb(args);
    EXPECT_EQ(result.code, 4) << args[0] << ": " << result.err;
    EXPECT_EQ(result.err,
              "mpsctl: there is no job 01KAH0000000000000000000AA\n"
              "See the jobs there are with `mpsctl list`.\n");
  }
}

}  // namespace
}  // namespace mpsd::client
