// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd {
namespace {

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() { unsetenv("MPSD_STATE_DIR"); }
  ~ConfigTest() override { unsetenv("MPSD_STATE_DIR"); }
  static Config Parse(const std::vector<std::string>& args) {
    auto parsed = ParseConfig(args);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(std::holds_alternative<Config>(*parsed));
    return std::get<Config>(*parsed);
  }
  static void ExpectError(const std::vector<std::string>& args,
                          const std::string& text) {
    auto parsed = ParseConfig(args);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status()));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(text));
  }
  void WriteFile(const std::string& text) const {
    std::ofstream(file_) << text;
  }
  Config ParseFile(const std::string& text,
                   std::vector<std::string> args = {}) const {
    WriteFile(text);
    args.insert(args.end(), {"--config", file_});
    return Parse(args);
  }
  void ExpectFileError(const std::string& text,
                       const std::string& words) const {
    WriteFile(text);
    ExpectError({"--config", file_}, words);
  }

  const fs::path folder_ = FreshFolder("config");
  const std::string file_ = folder_ / "mpsd.toml";
};

TEST_F(ConfigTest, ReadsTheMannersOfASharedMachine) {
  const Config config =
      Parse({"--pause-on-battery", "--pause-on-thermal", "heavy",
             "--pause-on-memory-pressure", "critical", "--quiet-hours",
             "22:00-07:00", "--idle-only-seconds", "300",
             "--pause-hold-seconds", "60", "--pause-settle-seconds", "0",
             "--host-interval-seconds", "0.5", "--host-file", "/h.json"});
  EXPECT_TRUE(config.pause.on_battery);
  EXPECT_EQ(config.pause.thermal, host::Thermal::kHeavy);
  EXPECT_EQ(config.pause.memory_pressure, host::MemoryPressure::kCritical);
  EXPECT_EQ(ToString(*config.pause.quiet_hours), "22:00-07:00");
  EXPECT_EQ(config.pause.idle_only, absl::Minutes(5));
  EXPECT_EQ(config.pause.hold_limit, absl::Minutes(1));
  EXPECT_EQ(config.pause.settle, absl::ZeroDuration());
  EXPECT_EQ(config.host_interval, absl::Milliseconds(500));
  EXPECT_EQ(config.host_file, "/h.json");
}

TEST_F(ConfigTest, ReadsWhatToReport) {
  const notify::Settings settings =
      ParseFile(
          "notify-on = [\"failed\", \"cancelled\"]\n"
          "notify-command = [\"/bin/echo\", \"a b\", \"-n\"]\n")
          .notify;
  EXPECT_THAT(settings.topics,
              ElementsAre(jobs::State::kFailed, jobs::State::kCancelled));
  EXPECT_THAT(settings.command, ElementsAre("/bin/echo", "a b", "-n"));
}

TEST_F(ConfigTest, RefusesReportsAndMannersItDoesNotKnow) {
  ExpectError({"--notify-on", "ended"}, "--notify-on");
  ExpectError({"--notify-command", "mail"}, "--notify-command: 'mail'");
  ExpectFileError("check-notify = true\n", "check-notify");
  ExpectError({"--quiet-hours", "at night"}, "--quiet-hours: 'at night'");
  ExpectError({"--pause-on-thermal", "hot"}, "--pause-on-thermal");
  ExpectError({"--pause-on-memory-pressure", "normal"},
              "--pause-on-memory-pressure");
}

TEST_F(ConfigTest, ReadsEveryFlag) {
  const Config config = Parse(absl::StrSplit(
      "--state-dir /s --worker /w --listen 127.0.0.1:1 --listen unix:/x "
      "--metrics-address off --http-listen localhost:9465 --metrics-tls-cert "
      "/c --metrics-tls-key k --metrics-token-file /t --log-level debug "
      "--log-max-bytes 2048 --log-files 2 --log-stderr off "
      "--hang-timeout-seconds 1.5 --stop-grace-seconds 2 --max-failures 4 "
      "--min-free-bytes 8 --blob-grace-seconds 1.5 --audit-keep-days 11 "
      "--retry-backoff-seconds 5 --retry-backoff-max-seconds 6 "
      "--watchdog-seconds 10 --metrics-linger-seconds 7 --state-budget-bytes "
      "500GiB --fair-share-half-life-hours 1.5 --preempt "
      "--preempt-margin-seconds 7 --preempt-min-run-seconds=0",
      ' '));
  EXPECT_EQ(config.state_dir, "/s");
  EXPECT_EQ(config.SocketPath(), "/s/mpsd.sock");
  EXPECT_EQ(config.worker, "/w");
  EXPECT_THAT(config.listen, ElementsAre("127.0.0.1:1", "unix:/x"));
  EXPECT_EQ(config.metrics_address, "");
  EXPECT_EQ(config.http_listen, "localhost:9465");
  EXPECT_EQ(config.metrics_tls_cert, "/c");
  EXPECT_EQ(config.metrics_tls_key, fs::current_path() / "k");
  EXPECT_EQ(config.metrics_token_file, "/t");
  EXPECT_EQ(config.log_level, "debug");
  EXPECT_EQ(config.log_max_bytes, 2048);
  EXPECT_EQ(config.log_files, 2);
  EXPECT_FALSE(config.log_stderr);
  EXPECT_EQ(config.hang_timeout, absl::Seconds(1.5));
  EXPECT_EQ(config.stop_grace, absl::Seconds(2));
  EXPECT_EQ(config.max_failures, 4);
  EXPECT_EQ(config.min_free_bytes, 8);
  EXPECT_EQ(config.blob_grace, absl::Seconds(1.5));
  EXPECT_EQ(config.audit_keep, absl::Hours(24 * 11));
  EXPECT_EQ(config.watchdog, absl::Seconds(10));
  EXPECT_EQ(config.retry_backoff, absl::Seconds(5));
  EXPECT_EQ(config.retry_backoff_max, absl::Seconds(6));
  EXPECT_EQ(config.metrics_linger, absl::Seconds(7));
  EXPECT_EQ(config.state_budget, int64_t{500} << 30);
  EXPECT_EQ(Parse({"--state-budget-bytes", "none"}).state_budget, 0);
  EXPECT_EQ(config.fair_share_half_life, absl::Minutes(90));
  EXPECT_TRUE(config.preemption.enabled);
  EXPECT_EQ(config.preemption.margin, absl::Seconds(7));
  EXPECT_EQ(config.preemption.least_run, absl::ZeroDuration());
}

TEST_F(ConfigTest, TheOwnersJobsReadAllAndThoseOfOthersWhatIsNamed) {
  const Config config = Parse({"--listen", "unix:/x"});
  EXPECT_THAT(config.model_roots, ElementsAre("/"));
  EXPECT_THAT(config.data_roots, ElementsAre("/"));
  for (const std::vector<std::string>& open :
       {std::vector<std::string>{"--listen", "127.0.0.1:1"},
        std::vector<std::string>{"--socket-group", "staff"}}) {
    EXPECT_TRUE(Parse(open).model_roots.empty());
    EXPECT_TRUE(Parse(open).data_roots.empty());
    auto named = open;
    named.insert(named.end(), {"--data-root", "/d"});
    EXPECT_TRUE(Parse(named).model_roots.empty());
    EXPECT_THAT(Parse(named).data_roots, ElementsAre("/d"));
  }
}

TEST_F(ConfigTest, OneNamedRootClosesTheRest) {
  const Config config = Parse({"--model-root", "/m", "--model-root", "n"});
  EXPECT_THAT(config.model_roots, ElementsAre("/m", fs::current_path() / "n"));
  EXPECT_TRUE(config.data_roots.empty());
  const Config file = ParseFile("data-root = [\"/d\", \"/e\"]\n");
  EXPECT_THAT(file.data_roots, ElementsAre("/d", "/e"));
  EXPECT_TRUE(file.model_roots.empty());
}

TEST_F(ConfigTest, ReadsTheEnvironmentOfWorkers) {
  const Config config = ParseFile(R"(log-level = "warn"
[environment]
HF_HOME = "/srv/hub, of all"
# a comment
HF_HUB_OFFLINE = 1
https_proxy = "http://proxy:3128"
)");
  EXPECT_EQ(config.log_level, "warn");
  const std::map<std::string, std::string> expected = {
      {"HF_HOME", "/srv/hub, of all"},
      {"HF_HUB_OFFLINE", "1"},
      {"https_proxy", "http://proxy:3128"}};
  EXPECT_EQ(config.environment, expected);
  const Config flags = Parse({"--environment", "A=b=c", "--environment", "E="});
  EXPECT_EQ(flags.environment.at("A"), "b=c");
  EXPECT_EQ(flags.environment.at("E"), "");
}

TEST_F(ConfigTest, RefusesAnInvalidEnvironment) {
  ExpectError({"--environment", "HF_HOME"}, "'HF_HOME' expected NAME=VALUE");
  ExpectError({"--environment", "A B=1"}, "'A B' expected a name");
  ExpectError({"--environment", "1A=1"}, "'1A' expected a name");
  ExpectError({"--environment", "=1"}, "'' expected a name");
  ExpectError({"--environment", "MPSD_STATE_DIR=/s"}, "is mpsd's own");
  ExpectFileError("[environment]\nA = 1\nA = 2\n", "'A' is given twice");
  // What comes after a table's header is of the table.
  ExpectFileError("[environment]\nA = 1\nmetrics-address = \"off\"\n",
                  "it goes above [environment]");
  ExpectFileError("[environment]\nA = 1\nworker = \"/w\"\n",
                  "'worker' is an option of mpsd");
  WriteFile("[environment.more]\nA = 1\n");
  EXPECT_FALSE(ParseConfig({"--config", file_}).ok());
}

TEST_F(ConfigTest, FlagsWinOverTheFileOverTheEnvironment) {
  setenv("MPSD_STATE_DIR", "/from/environment", 1);
  EXPECT_EQ(Parse({}).state_dir, "/from/environment");
  const std::string file = "state-dir = \"/from/file\"\n";
  EXPECT_EQ(ParseFile(file).state_dir, "/from/file");
  EXPECT_EQ(ParseFile(file, {"--state-dir", "/flag"}).state_dir, "/flag");
}

TEST_F(ConfigTest, UnknownKeysAndFlagsAreErrors) {
  ExpectError({"--colour", "red"}, "--colour");
  ExpectError({"extra"}, "extra");
  // With its line, and the nearest name if one is near.
  ExpectFileError("# a\n\n  state-dri = \"/s\"\n",
                  "line 3: 'state-dri' is not an option that mpsd's file may "
                  "hold; did you mean 'state-dir'?");
  ExpectFileError("[scheduler]\nmax-failures = 1\n",
                  "line 1: '[scheduler]' is not an option that mpsd's file may "
                  "hold; mpsd --help");
  ExpectFileError("admin = [\"a\"]\n[users.ann]\nqueued-jobs = 1\n",
                  "line 2: '[users]' is not an option that mpsd's file may "
                  "hold; did you mean '[user]'?");
}

TEST_F(ConfigTest, CheckConfigPrintsAddressesAndWhatDiffersFromTheDefaults) {
  WriteFile(
      "state-dir = \"/s\"\nhttp-listen = \"127.0.0.1:9465\"\n"
      "limit-queued-jobs = 20\nmax-failures = 3\n"
      "[environment]\nHF_TOKEN = \"secret\"\n");
  const auto printed = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "--check-config");
    const auto parsed = ParseConfig(args);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? std::get<PrintAndExit>(*parsed).text : "";
  };
  EXPECT_EQ(printed({"--config", file_, "--listen", "127.0.0.1:7433"}),
            "state folder /s\n"
            "API on unix:/s/mpsd.sock\n"
            "API on 127.0.0.1:7433\n"
            "metrics on http://127.0.0.1:9464/metrics\n"
            "web page on http://127.0.0.1:9465/\n"
            "differs from the defaults:\n"
            "  state-dir = /s\n"
            "  http-listen = 127.0.0.1:9465\n"
            "  listen = 127.0.0.1:7433\n"
            "  environment = HF_TOKEN\n"
            "  limit-queued-jobs = 20\n");
  EXPECT_THAT(printed({"--metrics-address", "off"}),
              testing::Not(HasSubstr("metrics on")));
  EXPECT_THAT(printed({}), HasSubstr("all options have defaults\n"));
  ExpectError({"--check-config", "--listen", "0.0.0.0:7433"}, "--listen");
}

TEST_F(ConfigTest, ValuesAreChecked) {
  ExpectError({"--max-failures", "0"}, "--max-failures");
  ExpectError({"--max-interruptions", "0"}, "--max-interruptions");
  ExpectError({"--min-free-bytes", "-1"}, "--min-free-bytes");
  ExpectError({"--hang-timeout-seconds", "soon"}, "--hang-timeout-seconds");
  ExpectError({"--stop-grace-seconds", "-1"}, "--stop-grace-seconds");
  ExpectError({"--log-level", "loud"}, "--log-level");
  ExpectError({"--fair-share-half-life-hours=-1"}, "");
  ExpectError({"--fair-share-half-life-hours=long"}, "");
  ExpectError({"--preempt-margin-seconds=-1"}, "");
  ExpectError({"--preempt-min-run-seconds=nan"}, "");
  for (const char* budget : {"0", "-1", "12GB", "1e9", "nan", "9999999TiB"}) {
    ExpectError({std::string("--state-budget-bytes=") + budget},
                "--state-budget-bytes: expected");
  }
  ExpectError({"--config", "/no/such/file.toml"}, "/no/such/file.toml");
}

TEST_F(ConfigTest, TheGpusLockIsTheMachinesOrOff) {
  EXPECT_EQ(Parse({}).device_lock, DefaultDeviceLock());
  EXPECT_EQ(Parse({"--device-lock", "off"}).device_lock, "");
  EXPECT_EQ(Parse({"--device-lock", "/l"}).device_lock, "/l");
  EXPECT_EQ(Parse({"--device-lock", "l"}).device_lock,
            fs::current_path() / "l");
}

TEST_F(ConfigTest, ReadsWhoMayCome) {
  const Config config =
      Parse({"--listen", "0.0.0.0:1", "--tls-cert", "/c", "--tls-key", "k",
             "--socket-group", "staff", "--admin", "ada", "--admin",
             "ops@example.org", "--viewer", "guest"});
  EXPECT_EQ(config.tls_cert, "/c");
  EXPECT_EQ(config.tls_key, fs::current_path() / "k");
  EXPECT_EQ(config.socket_group, "staff");
  EXPECT_THAT(config.admins, ElementsAre("ada", "ops@example.org"));
  EXPECT_THAT(config.viewers, ElementsAre("guest"));
  ExpectError({"--admin", "Ada Lovelace"},
              "--admin: 'Ada Lovelace' is not a user name");
  ExpectError({"--viewer", ""}, "--viewer");
  ExpectError({"--admin", "ada", "--viewer", "bob", "--viewer", "ada"},
              "--viewer: 'ada' is an --admin already");
}

TEST_F(ConfigTest, WhatMpsdTlsInitMadeIsTheDefaultOfBothOrNone) {
  fs::create_directories(folder_ / "tls");
  for (const char* name : {"server.crt", "server.key"}) {
    std::ofstream(folder_ / "tls" / name) << "x";
  }
  Config config = Parse({"--state-dir", folder_});
  EXPECT_EQ(config.tls_cert, folder_ / "tls" / "server.crt");
  EXPECT_EQ(config.tls_key, folder_ / "tls" / "server.key");
  config =
      Parse({"--state-dir", folder_, "--tls-cert", "/c", "--tls-key", "/k"});
  EXPECT_EQ(config.tls_cert, "/c");
  EXPECT_EQ(config.tls_key, "/k");
  ExpectError({"--state-dir", folder_, "--tls-cert", "/c"},
              "give --tls-key too");
}

class UserLimitsTest : public ConfigTest {
 protected:
  jobs::LimitSettings Limits(const std::vector<std::string>& args,
                             const std::string& text = "") const {
    return (text.empty() ? Parse(args) : ParseFile(text, args)).user_limits;
  }
};

TEST_F(UserLimitsTest, ATableOfAUserReplacesWhatItNames) {
  const jobs::LimitSettings settings = Limits({}, R"(
limit-queued-jobs = 5
limit-upload-bytes = "1GiB"
[user.ada]
queued-jobs = 50
priority = "-1:9"
[user."bob.b@example.org"]
upload-bytes = "none"
[environment]
HF_HOME = "/srv"
)");
  ASSERT_EQ(settings.users.size(), 2u);
  const jobs::UserLimits ada = settings.Of("ada");
  EXPECT_EQ(ada.queued_jobs, 50);
  EXPECT_EQ(ada.upload_bytes, 1 << 30);
  EXPECT_EQ(ada.highest_priority, 9);
  const jobs::UserLimits bob = settings.Of("bob.b@example.org");
  EXPECT_EQ(bob.queued_jobs, 5);
  EXPECT_EQ(bob.upload_bytes, std::nullopt);
  EXPECT_EQ(settings.Of("eve").queued_jobs, 5);
  EXPECT_EQ(settings.Of("eve").highest_priority, 0);
  EXPECT_GT(Limits({"--limit-priority", "none"}).Of("eve").highest_priority, 9);
}

TEST_F(UserLimitsTest, TheCommandLineNamesAUserToo) {
  const jobs::LimitSettings settings =
      Limits({"--user-limit", "ada:queued-jobs=3", "--user-limit",
              "ada:upload-bytes=4"});
  EXPECT_EQ(settings.Of("ada").queued_jobs, 3);
  EXPECT_EQ(settings.Of("ada").upload_bytes, 4);
}

TEST_F(UserLimitsTest, RefusesWhatIsNoLimit) {
  ExpectError({"--limit-queued-jobs", "many"}, "--limit-queued-jobs");
  ExpectError({"--limit-priority", "3"}, "LOW:HIGH");
  ExpectError({"--user-limit", "ada"}, "NAME:KEY=VALUE");
  ExpectError({"--user-limit", "a b:queued-jobs=1"}, "not a user name");
  ExpectError({"--user-limit", "ada:queued-jobs=1", "--user-limit",
               "ada:queued-jobs=2"},
              "twice");
  ExpectFileError("[user.ada]\nqueued = 5\n", "'queued' is not a user limit");
  ExpectFileError("[user.bob]\nqueued-jobs = 1\n[user.ada]\nqueued-jobs = -5\n",
                  "line 4: --user-limit ada:queued-jobs");
  ExpectFileError("[user.ada]\nqueued-jbs = 5\n",
                  "line 2: --user-limit ada:queued-jbs: 'queued-jbs' is not a "
                  "user limit; did you mean 'queued-jobs'?");
  ExpectFileError("\nlog-files = many\n", "line 2: --log-files");
  ExpectError({"x", "--stat-dir"},
              "no option --stat-dir; did you mean 'state-");
  // Quotes in comments and within other quotes open nothing.
  ExpectFileError("# it's\nadmin = [\"o'hara\"]  # it's\nviewer = \"eve\n",
                  "line 3: a quote is not closed: viewer = \"eve");
  ExpectFileError("[user.ada]\nlisten = \"unix:/x\"\n", "'listen'");
  ExpectFileError("[user]\nqueued-jobs = 5\n", "user");
  ExpectFileError("[users.ada]\nqueued-jobs = 5\n", "users");
}

TEST(DefaultPlaces, AreTheHomeFolderAndNextToTheProgram) {
  const char* home = std::getenv("HOME");
  const std::string before = home != nullptr ? home : "";
  setenv("HOME", "/somewhere", 1);
#ifdef __APPLE__
  EXPECT_EQ(base::DefaultStateDir(),
            "/somewhere/Library/Application Support/mpsd");
#else
  EXPECT_EQ(base::DefaultStateDir(), "/somewhere/.local/state/mpsd");
#endif
  // Without HOME, or with one that depends on the current folder, the
  // account's.
  for (const char* none : {"", "somewhere"}) {
    setenv("HOME", none, 1);
    EXPECT_EQ(base::HomeFolder(), getpwuid(geteuid())->pw_dir);
    EXPECT_TRUE(base::DefaultStateDir().is_absolute());
  }
  unsetenv("HOME");
  if (home != nullptr) setenv("HOME", before.c_str(), 1);
  EXPECT_EQ(DefaultWorker(),
            fs::canonical(MPSD_TEST_BINARY_DIR) / "mpsd-worker");
}

// The fault of a configuration; "" for none.
std::string Fault(const Config& config) {
  const absl::Status status = CheckAddresses(config);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST(CheckAddresses, BeyondTheMachineTheApiHasACertificate) {
  Config config;
  for (const char* address :
       {"unix:/x", "127.0.0.1:1", "localhost:1", "[::1]:1"}) {
    config.listen = {"unix:/y", address};
    EXPECT_EQ(Fault(config), "") << address;
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", "mac.local:1", "10.0.0.1:1"}) {
    config.tls_cert = config.tls_key = "";
    config.listen = {"unix:/x", "127.0.0.1:1", address};
    EXPECT_THAT(Fault(config),
                AllOf(HasSubstr(std::string("--listen ") + address +
                                ": without a certificate"),
                      HasSubstr("mpsd tls init"), HasSubstr("ssh://")));
    config.tls_cert = config.tls_key = "/c";
    EXPECT_EQ(Fault(config), "") << address;
  }
}

TEST(CheckAddresses, ACertificateHasItsKey) {
  Config config;
  config.tls_cert = "/c";
  EXPECT_THAT(Fault(config), HasSubstr("--tls-cert: the certificate and its "
                                       "key come together; give --tls-key"));
  config.tls_cert = "";
  config.tls_key = "/k";
  EXPECT_THAT(Fault(config), HasSubstr("give --tls-cert too"));
  config.tls_cert = config.tls_key = "/c";
  EXPECT_EQ(Fault(config), "");
  config.metrics_tls_cert = "/c";
  EXPECT_THAT(Fault(config), HasSubstr("give --metrics-tls-key too"));
  config.metrics_tls_key = "/k";
  EXPECT_EQ(Fault(config), "");
  config.metrics_tls_cert.clear();
  EXPECT_THAT(Fault(config), HasSubstr("give --metrics-tls-cert too"));
}

TEST(CheckAddresses, ThePageIsThisMachinesAlone) {
  Config config;
  for (const char* address :
       {"", "127.0.0.1:9465", "[::1]:0", "localhost:80", "unix:/run/page"}) {
    config.http_listen = address;
    EXPECT_EQ(Fault(config), "") << address;
  }
  for (const char* address :
       {"0.0.0.0:80", "mac.local:80", "[::]:80", "9465"}) {
    config.http_listen = address;
    EXPECT_THAT(Fault(config), HasSubstr(std::string("--http-listen ") +
                                         address + ": the web page"));
  }
}

TEST(CheckAddresses, ATokenIsNotReadAsItPasses) {
  Config config;
  config.metrics_token_file = "/t";
  for (const char* address :
       {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/m", ""}) {
    config.metrics_address = address;
    EXPECT_EQ(Fault(config), "") << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "mac.local:1"}) {
    config.metrics_address = address;
    EXPECT_THAT(Fault(config), HasSubstr(std::string("--metrics-token-file: "
                                                     "on ") +
                                         address));
    config.metrics_tls_cert = config.metrics_tls_key = "/c";
    EXPECT_EQ(Fault(config), "");
    config.metrics_tls_cert = config.metrics_tls_key = "";
  }
  // Without one they may be open: they show names and numbers of jobs and
  // change nothing.
  config.metrics_token_file = "";
  config.metrics_address = "0.0.0.0:9464";
  EXPECT_EQ(Fault(config), "");
}

class WorkerSurroundingsTest : public testing::Test {
 protected:
  WorkerSurroundingsTest() {
    setenv("HF_HUB_CACHE", "/cache", 1);
    config_.state_dir = "/state";
  }
  ~WorkerSurroundingsTest() override {
    unsetenv("HF_HUB_CACHE");
    unsetenv("MY_SECRET_TOKEN");
  }
  Config config_;
};

TEST_F(WorkerSurroundingsTest, JobsReadTheCacheInAdditionToTheRoots) {
  config_.model_roots = {"/models"};
  config_.data_roots = {"/data"};
  const auto folders = FoldersJobsRead(config_);
  EXPECT_THAT(folders.models, ElementsAre("/models", "/cache"));
  EXPECT_THAT(folders.data, ElementsAre("/data"));
  EXPECT_THAT(FoldersWorkersRead(config_),
              ElementsAre("/models", "/cache", "/data"));
}

TEST_F(WorkerSurroundingsTest, WorkersHaveWhatTheTableNames) {
  setenv("MY_SECRET_TOKEN", "x", 1);
  EXPECT_FALSE(WorkersEnvironment(config_).contains("MY_SECRET_TOKEN"));
  config_.environment["MY_SECRET_TOKEN"] = "y";
  config_.environment["HF_HUB_CACHE"] = "/other";
  const host::Environment environment = WorkersEnvironment(config_);
  EXPECT_EQ(environment.at("MY_SECRET_TOKEN"), "y");
  EXPECT_EQ(environment.at("HF_HUB_CACHE"), "/other");
}

}  // namespace
}  // namespace mpsd
