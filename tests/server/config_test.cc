// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "server/default_places.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() { unsetenv("MPSD_STATE_DIR"); }
  ~ConfigTest() override {
    unsetenv("MPSD_STATE_DIR");
    fs::remove(file_);
  }
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
  void WriteFile(const std::string& text) { std::ofstream(file_) << text; }

  const std::string file_ =
      testing::TempDir() + "/mpsd-" + std::to_string(getpid()) + ".toml";
};

TEST_F(ConfigTest, DefaultsAreThoseOfTheHeader) {
  const Config config = Parse({}), expected;
  EXPECT_EQ(config.state_dir, DefaultStateDir());
  EXPECT_EQ(config.worker, DefaultWorker());
  EXPECT_EQ(config.metrics_address, "127.0.0.1:9464");
  EXPECT_TRUE(config.listen.empty());
  EXPECT_TRUE(config.log_stderr);
  EXPECT_FALSE(config.skip_selftest);
  EXPECT_TRUE(Parse({"--skip-selftest"}).skip_selftest);
  EXPECT_FALSE(config.private_jobs);
  EXPECT_TRUE(Parse({"--private-jobs"}).private_jobs);
  EXPECT_EQ(config.hang_timeout, expected.hang_timeout);
  EXPECT_EQ(config.stop_grace, expected.stop_grace);
  EXPECT_EQ(config.retry_backoff, expected.retry_backoff);
  EXPECT_EQ(config.retry_backoff_max, expected.retry_backoff_max);
  EXPECT_EQ(config.metrics_linger, expected.metrics_linger);
  EXPECT_EQ(config.max_interruptions, 5);
  EXPECT_EQ(config.min_free_bytes, int64_t{1} << 30);
  EXPECT_EQ(Parse({"--max-interruptions", "7"}).max_interruptions, 7);
  EXPECT_EQ(Parse({"--min-free-bytes", "0"}).min_free_bytes, 0);
}

TEST_F(ConfigTest, NobodyIsMindedUnlessAsked) {
  const Config config = Parse({});
  EXPECT_FALSE(config.pause.on_battery);
  EXPECT_FALSE(config.pause.thermal.has_value());
  EXPECT_FALSE(config.pause.memory_pressure.has_value());
  EXPECT_FALSE(config.pause.quiet_hours.has_value());
  EXPECT_EQ(config.pause.idle_only, absl::ZeroDuration());
  EXPECT_EQ(config.pause.settle, jobs::PausePolicy().settle);
  EXPECT_EQ(config.pause.hold_limit, absl::Minutes(10));
  EXPECT_EQ(config.host_interval, absl::Seconds(5));
  EXPECT_TRUE(config.host_file.empty());
}

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

TEST_F(ConfigTest, ReportsNothingUnlessAsked) {
  const Config config = Parse({});
  EXPECT_EQ(config.notify, notify::Settings());
  EXPECT_THAT(config.notify.command, testing::IsEmpty());
  EXPECT_FALSE(config.check_notify);
  EXPECT_TRUE(Parse({"--check-notify"}).check_notify);
}

TEST_F(ConfigTest, ReadsWhatToReport) {
  WriteFile(
      "notify-on = [\"failed\", \"low_disk\"]\n"
      "notify-command = [\"/bin/echo\", \"a b\", \"-n\"]\n"
      "notify-low-disk-bytes = 7\nnotify-settle-seconds = 0.5\n");
  const notify::Settings settings = Parse({"--config", file_}).notify;
  EXPECT_THAT(settings.topics,
              ElementsAre(notify::Topic::kFailed, notify::Topic::kLowDisk));
  EXPECT_THAT(settings.command, ElementsAre("/bin/echo", "a b", "-n"));
  EXPECT_EQ(settings.low_disk_bytes, 7);
  EXPECT_EQ(settings.settle, absl::Milliseconds(500));
}

TEST_F(ConfigTest, RefusesToReportInWaysItDoesNotKnow) {
  ExpectError({"--notify-on", "ended"}, "--notify-on");
  ExpectError({"--notify-command", "mail"}, "--notify-command: 'mail'");
  WriteFile("notify-webhook = \"https://example.com/hook\"\n");
  ExpectError({"--config", file_}, "use notify-command");
  WriteFile("check-notify = true\n");
  ExpectError({"--config", file_}, "check-notify");
}

TEST_F(ConfigTest, RefusesMannersItDoesNotKnow) {
  ExpectError({"--quiet-hours", "at night"}, "--quiet-hours: 'at night'");
  ExpectError({"--pause-on-thermal", "hot"}, "--pause-on-thermal");
  ExpectError({"--pause-on-memory-pressure", "normal"},
              "--pause-on-memory-pressure");
}

TEST_F(ConfigTest, ReadsEveryFlag) {
  const Config config = Parse({"--state-dir",
                               "/s",
                               "--worker",
                               "/w",
                               "--listen",
                               "127.0.0.1:1",
                               "--listen",
                               "unix:/x",
                               "--metrics-address",
                               "off",
                               "--http-listen",
                               "localhost:9465",
                               "--metrics-tls-cert",
                               "/c",
                               "--metrics-tls-key",
                               "k",
                               "--metrics-token-file",
                               "/t",
                               "--log-level",
                               "debug",
                               "--log-max-bytes",
                               "2048",
                               "--log-files",
                               "2",
                               "--log-stderr",
                               "off",
                               "--hang-timeout-seconds",
                               "1.5",
                               "--stop-grace-seconds",
                               "2",
                               "--max-failures",
                               "4",
                               "--min-free-bytes",
                               "8",
                               "--blob-grace-seconds",
                               "9",
                               "--audit-keep-days",
                               "11",
                               "--retry-backoff-seconds",
                               "5",
                               "--retry-backoff-max-seconds",
                               "6",
                               "--watchdog-seconds",
                               "10",
                               "--metrics-linger-seconds",
                               "7"});
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
  EXPECT_EQ(config.blob_grace, absl::Seconds(9));
  EXPECT_EQ(config.audit_keep, absl::Hours(24 * 11));
  EXPECT_EQ(config.watchdog, absl::Seconds(10));
  EXPECT_EQ(config.retry_backoff, absl::Seconds(5));
  EXPECT_EQ(config.retry_backoff_max, absl::Seconds(6));
  EXPECT_EQ(config.metrics_linger, absl::Seconds(7));
}

TEST_F(ConfigTest, APortBeyondTheMachineWantsACertificate) {
  ExpectError({"--state-dir", "/s", "--listen", "h:1"},
              "--listen h:1: without a certificate");
  EXPECT_THAT(Parse({"--listen", "127.0.0.1:1"}).listen,
              ElementsAre("127.0.0.1:1"));
  WriteFile("listen = [\"h:1\"]\n");
  ExpectError({"--config", file_}, "mpsd tls init");
  WriteFile("listen = [\"h:1\"]\ntls-cert = \"c\"\ntls-key = \"/k\"\n");
  EXPECT_EQ(Parse({"--config", file_}).tls_cert, fs::current_path() / "c");
}

TEST_F(ConfigTest, TheOwnersJobsReadWhatTheOwnerMay) {
  const Config config = Parse({"--listen", "unix:/x"});
  EXPECT_THAT(config.model_roots, ElementsAre("/"));
  EXPECT_THAT(config.data_roots, ElementsAre("/"));
}

TEST_F(ConfigTest, JobsOfOthersReadWhatIsNamedAlone) {
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
  WriteFile("data-root = [\"/d\", \"/e\"]\n");
  EXPECT_THAT(Parse({"--config", file_}).data_roots, ElementsAre("/d", "/e"));
  EXPECT_TRUE(Parse({"--config", file_}).model_roots.empty());
}

TEST_F(ConfigTest, ReadsATomlFile) {
  WriteFile(
      "# a comment\n"
      "state-dir = \"/from/file\"\n"
      "listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n"
      "metrics-address = \"off\"\n"
      "hang-timeout-seconds = 90\n");
  const Config config = Parse({"--config", file_});
  EXPECT_EQ(config.state_dir, "/from/file");
  EXPECT_THAT(config.listen, ElementsAre("127.0.0.1:1", "127.0.0.1:2"));
  EXPECT_EQ(config.metrics_address, "");
  EXPECT_EQ(config.hang_timeout, absl::Seconds(90));
}

TEST_F(ConfigTest, ReadsTheEnvironmentOfWorkers) {
  WriteFile(
      "log-level = \"warn\"\n"
      "[environment]\n"
      "HF_HOME = \"/srv/hub, of all\"\n"
      "# a comment\n"
      "HF_HUB_OFFLINE = 1\n"
      "https_proxy = \"http://proxy:3128\"\n");
  const Config config = Parse({"--config", file_});
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

TEST_F(ConfigTest, RefusesAnEnvironmentThatIsNone) {
  ExpectError({"--environment", "HF_HOME"}, "'HF_HOME' expected NAME=VALUE");
  ExpectError({"--environment", "A B=1"}, "'A B' expected a name");
  ExpectError({"--environment", "1A=1"}, "'1A' expected a name");
  ExpectError({"--environment", "=1"}, "'' expected a name");
  ExpectError({"--environment", "MPSD_STATE_DIR=/s"}, "is mpsd's own");
  WriteFile("[environment]\nA = 1\nA = 2\n");
  ExpectError({"--config", file_}, "'A' is given twice");
  // What stands behind a table is of the table.
  WriteFile("[environment]\nA = 1\nmetrics-address = \"off\"\n");
  ExpectError({"--config", file_}, "it stands above [environment]");
  WriteFile("[environment]\nA = 1\nworker = \"/w\"\n");
  ExpectError({"--config", file_}, "'worker' is an option of mpsd");
  WriteFile("[environment.more]\nA = 1\n");
  EXPECT_FALSE(ParseConfig({"--config", file_}).ok());
}

TEST_F(ConfigTest, FlagsWinOverTheFileOverTheEnvironment) {
  setenv("MPSD_STATE_DIR", "/from/environment", 1);
  EXPECT_EQ(Parse({}).state_dir, "/from/environment");
  WriteFile("state-dir = \"/from/file\"\n");
  EXPECT_EQ(Parse({"--config", file_}).state_dir, "/from/file");
  EXPECT_EQ(Parse({"--config", file_, "--state-dir", "/flag"}).state_dir,
            "/flag");
}

TEST_F(ConfigTest, UnknownKeysAndFlagsAreErrors) {
  ExpectError({"--colour", "red"}, "--colour");
  ExpectError({"extra"}, "extra");
  WriteFile("state-dri = \"/s\"\n");
  ExpectError({"--config", file_}, "'state-dri' is no option");
  WriteFile("[scheduler]\nmax-failures = 1\n");
  ExpectError({"--config", file_}, "'[scheduler]' is no option");
  WriteFile("openai-listen = \"127.0.0.1:8400\"\n");
  ExpectError({"--config", file_},
              "'openai-listen' was removed from mpsd; use");
}

TEST_F(ConfigTest, ValuesAreChecked) {
  ExpectError({"--max-failures", "0"}, "--max-failures");
  ExpectError({"--max-interruptions", "0"}, "--max-interruptions");
  ExpectError({"--min-free-bytes", "-1"}, "--min-free-bytes");
  ExpectError({"--hang-timeout-seconds", "soon"}, "--hang-timeout-seconds");
  ExpectError({"--stop-grace-seconds", "-1"}, "--stop-grace-seconds");
  ExpectError({"--log-level", "loud"}, "--log-level");
  ExpectError({"--config", "/no/such/file.toml"}, "/no/such/file.toml");
}

TEST_F(ConfigTest, TheGpusLockIsTheMachinesOrOff) {
  EXPECT_EQ(Parse({}).device_lock, DefaultDeviceLock());
  EXPECT_EQ(Parse({"--device-lock", "off"}).device_lock, "");
  EXPECT_EQ(Parse({"--device-lock", "/l"}).device_lock, "/l");
  EXPECT_EQ(Parse({"--device-lock", "l"}).device_lock,
            fs::current_path() / "l");
}

TEST_F(ConfigTest, RelativePathsBecomeAbsolute) {
  const Config config = Parse({"--state-dir", "a/../s", "--worker", "w"});
  EXPECT_EQ(config.state_dir, fs::current_path() / "s");
  EXPECT_EQ(config.worker, fs::current_path() / "w");
}

TEST_F(ConfigTest, HelpAndVersionArePrinted) {
  auto help = ParseConfig({"--help"});
  ASSERT_TRUE(help.ok());
  EXPECT_THAT(std::get<PrintAndExit>(*help).text,
              HasSubstr("--metrics-address"));
  auto version = ParseConfig({"--version"});
  ASSERT_TRUE(version.ok());
  EXPECT_EQ(std::get<PrintAndExit>(*version).text, "mpsd " MPSD_VERSION "\n");
}

}  // namespace
}  // namespace mpsd
