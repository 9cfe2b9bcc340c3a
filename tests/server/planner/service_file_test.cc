// SPDX-License-Identifier: Apache-2.0
#include "server/planner/service_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/planner/fake_machine.h"

namespace mpsd::doctor {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string Deployed(const std::string& name) {
  return *base::ReadFile(fs::path(MPSD_TEST_SOURCE_DIR) / "deploy" / name);
}

// What deploy/install.sh installs has everything that the gates want.
TEST(ServiceFile, ReadsWhatIsInstalled) {
  const Service service = ParseUnit({Deployed("systemd/mpsd.service")});
  EXPECT_EQ(service.manager, "systemd");
  EXPECT_EQ(service.descriptors, 16384);
  EXPECT_EQ(service.stop_seconds, 150);
  EXPECT_THAT(service.environment,
              ElementsAre(Pair("HF_HOME", "@HOME@/.cache/huggingface"),
                          Pair("XDG_CACHE_HOME", "@STATE@/cache")));
  const Service daemon = ParsePlist(Deployed("launchd/org.mpsd.daemon.plist"));
  EXPECT_EQ(daemon.manager, "launchd");
  EXPECT_EQ(daemon.process_type, "Interactive");
  EXPECT_EQ(daemon.descriptors, 8192);
  EXPECT_EQ(daemon.stop_seconds, 150);
  EXPECT_THAT(daemon.environment,
              ElementsAre(Pair("HOME", "@HOME@"),
                          Pair("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")));
  EXPECT_EQ(ParsePlist(Deployed("launchd/org.mpsd.agent.plist")).process_type,
            "Interactive");
}

TEST(ServiceFile, ReadsAUnitAsSystemdDoes) {
  const Service service = ParseUnit(
      {"[Unit]\nEnvironment=NO=1\n[Service]\n# Environment=NO=2\n"
       "Environment=A=1 \"B=two words\" 'C=x' D=\\\"q\n"
       "Environment=E=a\\\n b\nEnvironment=A=3\nLimitNOFILE=1024:4096\n"
       "TimeoutStopSec=2min 30s\n",
       // A drop-in.
       "[Service]\nEnvironment=OMP_NUM_THREADS=8\nLimitNOFILE=infinity\n"});
  EXPECT_THAT(service.environment,
              ElementsAre(Pair("A", "3"), Pair("B", "two words"),
                          Pair("C", "x"), Pair("D", "\"q"), Pair("E", "a"),
                          Pair("OMP_NUM_THREADS", "8")));
  EXPECT_EQ(service.descriptors, std::nullopt);
  EXPECT_EQ(service.stop_seconds, 150);
  EXPECT_THAT(
      ParseUnit({"[Service]\nEnvironment=A=1\nEnvironment=\n"}).environment,
      IsEmpty());
}

TEST(ServiceFile, WhatIsNoFileTellsNothing) {
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "<a>";
  for (const std::string& text :
       {std::string(), std::string("bplist00\xd1\x01"), deep,
        std::string("<plist><dict><key>ProcessType</key></dict></plist>"),
        std::string("<plist><dict><key>ExitTimeOut</key><integer>x</integer>"),
        std::string("<plist><dict><key>ProcessType</key><string>Inter")}) {
    const Service service = ParsePlist(text);
    EXPECT_EQ(service.process_type, "");
    EXPECT_EQ(service.stop_seconds, std::nullopt);
    const Service unit = ParseUnit({text});
    EXPECT_THAT(unit.environment, IsEmpty());
  }
}

class FindServiceTest : public testing::Test {
 protected:
  void Write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const fs::path folder_ = testing_support::FreshFolder("service");
  ServicePlaces places_{.root = folder_ / "root", .home = folder_ / "home"};
};

TEST_F(FindServiceTest, TheMachinesUnitComesBeforeAUsers) {
  EXPECT_EQ(FindService(places_, {}, "").file, "");
  const fs::path user = places_.home / ".config/systemd/user/mpsd.service";
  Write(user, "[Service]\nEnvironment=A=user\n");
  EXPECT_EQ(FindService(places_, {}, "").file, user.string());
  const fs::path machine = places_.root / "etc/systemd/system/mpsd.service";
  Write(machine, "[Service]\nEnvironment=A=machine\n");
  Write(machine.string() + ".d/10.conf", "[Service]\nEnvironment=A=later\n");
  Write(machine.string() + ".d/20.txt", "[Service]\nEnvironment=A=none\n");
  const Service service = FindService(places_, {}, "");
  EXPECT_EQ(service.file, machine.string());
  EXPECT_THAT(service.environment, ElementsAre(Pair("A", "later")));
}

TEST_F(FindServiceTest, TheControlGroupSaysWhoseProcessMpsdIs) {
  Write(places_.root / "etc/systemd/system/mpsd.service", "[Service]\n");
  EXPECT_EQ(
      FindService(places_, {}, "0::/system.slice/mpsd.service\n").runs_mpsd,
      true);
  EXPECT_EQ(
      FindService(places_, {}, "0::/user.slice/session-2.scope\n").runs_mpsd,
      false);
  // A container tells nothing.
  EXPECT_EQ(FindService(places_, {}, "0::/\n").runs_mpsd, std::nullopt);
  EXPECT_EQ(FindService(places_, {}, "").runs_mpsd, std::nullopt);
}

TEST_F(FindServiceTest, LaunchdTellsAProcessItsLabel) {
  places_.launchd = true;
  const fs::path plist =
      places_.root / "Library/LaunchDaemons/org.mpsd.daemon.plist";
  Write(plist, Deployed("launchd/org.mpsd.daemon.plist"));
  const Service service =
      FindService(places_, {{"XPC_SERVICE_NAME", "org.mpsd.daemon"}}, "");
  EXPECT_EQ(service.file, plist.string());
  EXPECT_EQ(service.runs_mpsd, true);
  EXPECT_EQ(FindService(places_, {{"XPC_SERVICE_NAME", "0"}}, "").runs_mpsd,
            false);
}

using runbook::Verdict;
using testing::HasSubstr;

TEST(ServiceGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"few descriptors", [](Facts& f) { f.limits.descriptors = 256; },
        "limits.descriptors", kWarn, "256 allowed, 40 open"},
       {"few processes", [](Facts& f) { f.limits.processes = 266; },
        "limits.processes", kWarn, "266"},
       {"started by hand beside its service",
        [](Facts& f) { f.service.runs_mpsd = false; }, "service.file", kWarn,
        "started otherwise"},
       {"no ProcessType", [](Facts& f) { f.service.process_type.clear(); },
        "service.process_type", kWarn, "none"},
       {"a throttled ProcessType",
        [](Facts& f) { f.service.process_type = "Background"; },
        "service.process_type", kWarn, "Background"},
       {"no descriptors in the file",
        [](Facts& f) { f.service.descriptors.reset(); }, "service.descriptors",
        kWarn, "sets none"},
       {"few descriptors in the file",
        [](Facts& f) { f.service.descriptors = 256; }, "service.descriptors",
        kWarn, "256 in the file"},
       {"killed before its checkpoint",
        [](Facts& f) { f.service.stop_seconds = 20; }, "service.stop_time",
        kWarn, "20 s from SIGTERM"},
       {"a variable that the file does not name",
        [](Facts& f) {
          f.daemon_environment["OMP_NUM_THREADS"] = "1";
          f.expected_environment["OMP_NUM_THREADS"] = "1";
          f.worker.environment["OMP_NUM_THREADS"] = "1";
        },
        "environment.drift", kWarn, "OMP_NUM_THREADS: its service's file"},
       {"a value that is not the file's",
        [](Facts& f) {
          f.service.environment["OMP_NUM_THREADS"] = "8";
          f.daemon_environment["OMP_NUM_THREADS"] = "1";
        },
        "environment.drift", kWarn, "another value than its service's file"},
       {"a worker with another value",
        [](Facts& f) { f.worker.environment["OMP_WAIT_POLICY"] = "ACTIVE"; },
        "environment.drift", kWarn, "OMP_WAIT_POLICY: the worker"},
       {"a worker without a value",
        [](Facts& f) { f.worker.environment.clear(); }, "environment.drift",
        kWarn, "the worker has another value"},
       {"Python's path",
        [](Facts& f) {
          f.service.environment["PYTHONPATH"] = "/x";
          f.daemon_environment["PYTHONPATH"] = "/x";
        },
        "environment.harmful", kWarn, "PYTHONPATH=/x"},
       {"operators that fall back to the processor",
        [](Facts& f) {
          f.worker.environment["PYTORCH_ENABLE_MPS_FALLBACK"] = "1";
          f.expected_environment["PYTORCH_ENABLE_MPS_FALLBACK"] = "1";
        },
        "environment.harmful", kWarn, "PYTORCH_ENABLE_MPS_FALLBACK=1"}});
}

TEST(ServiceGates, LaunchdMayWaitForEverAndTheLocaleIsNoDrift) {
  Facts facts = HealthyMac();
  facts.service.stop_seconds = 0;
  EXPECT_THAT(Wrong(facts), IsEmpty());
  // systemd and launchd set the locale themselves.
  facts = HealthyLinux();
  facts.daemon_environment["LANG"] = "en_GB.UTF-8";
  facts.daemon_environment["LC_ALL"] = "C.UTF-8";
  EXPECT_THAT(Wrong(facts), IsEmpty());
}

TEST(ServiceGates, StartedByHandWithoutAServiceIsNoFault) {
  Facts facts = HealthyLinux();
  facts.service = {};
  facts.daemon_environment["OMP_NUM_THREADS"] = "1";
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  EXPECT_EQ(FindingOf(facts, "service.file").verdict, Verdict::kNotTold);
}

TEST(ServiceGates, ADriftShowsNoSecret) {
  Facts facts = HealthyMac();
  facts.daemon_environment["HF_TOKEN"] = "hf_abc";
  EXPECT_THAT(
      FindingOf(facts, "environment.drift").found,
      testing::AllOf(HasSubstr("HF_TOKEN"), testing::Not(HasSubstr("hf_abc"))));
}

}  // namespace
}  // namespace mpsd::doctor
