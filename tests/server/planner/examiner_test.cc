// SPDX-License-Identifier: Apache-2.0
#include "server/planner/examiner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "server/planner/doctor.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/planner/fake_machine.h"

namespace mpsd::doctor {

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using End = WorkerGates::End;

constexpr char kFacts[] =
    R"({"worker_version":"0.1.0","protocol_version":7,)"
    R"("torch_version":"2.15.0","built_against":"2.15.0",)"
    R"("backends":[{"name":"mps","built":true,"available":true,)"
    R"("device":"Apple M4 Pro","problem":""}],)"
    R"("environment":{"OMP_NUM_THREADS":"8"}})";
constexpr char kMatmul[] =
    R"({"matmul":{"asked_device":"mps","result_device":"mps","right":true,)"
    R"("seconds":0.25}})";

std::string Whole() { return std::string(kFacts) + "\n" + kMatmul + "\n"; }

TEST(ParseGates, ReadsWhatTheWorkerPrints) {
  const WorkerGates gates = ParseGates(Whole());
  EXPECT_EQ(gates.end, End::kDone);
  EXPECT_EQ(gates.problem, "");
  EXPECT_EQ(gates.worker_version, "0.1.0");
  EXPECT_EQ(gates.protocol_version, 7);
  EXPECT_EQ(gates.torch_version, "2.15.0");
  EXPECT_EQ(gates.built_against, "2.15.0");
  ASSERT_EQ(gates.backends.size(), 1u);
  EXPECT_TRUE(gates.backends[0].built && gates.backends[0].available);
  EXPECT_EQ(gates.backends[0].device, "Apple M4 Pro");
  ASSERT_TRUE(gates.matmul.has_value());
  EXPECT_TRUE(gates.matmul->right);
  EXPECT_EQ(gates.matmul->seconds, 0.25);
  EXPECT_THAT(gates.environment, ElementsAre(Pair("OMP_NUM_THREADS", "8")));
  // Lines of a library on stdout are no part of the answer.
  EXPECT_EQ(ParseGates("Loading…\n[1]\n" + Whole() + "bye").end, End::kDone);
}

TEST(ParseGates, GarbageMakesNoSense) {
  for (const std::string& text :
       {std::string(), std::string("\xff\xfe\0no", 5), std::string("null"),
        std::string("{\"matmul\":"), std::string(100'000, '['),
        std::string("{\"torch_version\":7,\"backends\":{},\"matmul\":[]}"),
        std::string(kFacts), std::string(kMatmul)}) {
    const WorkerGates gates = ParseGates(text);
    EXPECT_EQ(gates.end, End::kNoSense) << text.substr(0, 40);
    EXPECT_THAT(gates.problem, HasSubstr("something else"));
  }
}

// Every beginning of the output, as a worker that was killed leaves it.
TEST(ParseGates, AnyBeginningIsReadAsFarAsItGoes) {
  const std::string whole = Whole();
  for (size_t i = 0; i + 2 < whole.size(); ++i) {
    EXPECT_EQ(ParseGates(whole.substr(0, i)).end, End::kNoSense) << i;
  }
}

TEST(ParseGates, TextsAreEscapedAndListsBounded) {
  std::string backends, variables;
  for (int i = 0; i < 1000; ++i) {
    backends +=
        R"({"name":"\u001b[2J","device":")" + std::string(1000, 'x') + "\"},";
    variables += "\"LD_" + std::to_string(i) + "\":\"x\",";
  }
  backends.pop_back();
  variables.pop_back();
  const WorkerGates gates = ParseGates(
      R"({"torch_version":"\u001b]0;x","built_against":"1","backends":[)" +
      backends + "],\"environment\":{" + variables + "}}\n" + kMatmul);
  EXPECT_EQ(gates.end, End::kDone);
  EXPECT_TRUE(base::IsPrintable(gates.torch_version));
  EXPECT_LE(gates.backends.size(), 8u);
  EXPECT_TRUE(base::IsPrintable(gates.backends[0].name));
  EXPECT_LE(gates.backends[0].device.size(), 256u);
  EXPECT_LE(gates.environment.size(), 100u);
}

using State = Selftest::State;

class SelftestVerdictTest : public testing::Test {
 protected:
  Selftest Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadSelftest(path_);
  }
  const std::filesystem::path path_ =
      testing_support::FreshFolder("verdict") / "verdict";
};

TEST_F(SelftestVerdictTest, HoldsVerdictDeviceAndAge) {
  Read(R"({"passed": true, "summary": "", "identity": {"device": "mps"}})");
  const timespec times[] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  const Selftest passed = ReadSelftest(path_);
  EXPECT_EQ(passed.state, State::kPassed);
  EXPECT_EQ(passed.device, "mps");
  EXPECT_EQ(passed.time, absl::FromUnixSeconds(1'700'000'000));
  const Selftest failed =
      Read(R"({"passed": false, "summary": "1 of 9: bmm\u001b[2J"})");
  EXPECT_EQ(failed.state, State::kFailed);
  EXPECT_EQ(failed.summary, "1 of 9: bmm\\x1b[2J");
}

TEST_F(SelftestVerdictTest, WhatIsNoVerdictIsUnknown) {
  EXPECT_EQ(ReadSelftest("/nonexistent/verdict").state, State::kUnknown);
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"passed\": 1}"),
        std::string("{\"passed\":"), std::string(100'000, '{')}) {
    EXPECT_EQ(Read(text).state, State::kUnknown) << text.substr(0, 40);
  }
}

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

TEST(ServiceFile, WhatIsNoFileHoldsNothing) {
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
  // A container reports nothing.
  EXPECT_EQ(FindService(places_, {}, "0::/\n").runs_mpsd, std::nullopt);
  EXPECT_EQ(FindService(places_, {}, "").runs_mpsd, std::nullopt);
}

TEST_F(FindServiceTest, LaunchdGivesAProcessItsLabel) {
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

absl::Status Wanted() { return absl::OkStatus(); }

// Always ready; starts nothing.
class IdleLauncher final : public jobs::WorkerLauncher {
 public:
  absl::Status Ready() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<jobs::Worker>> Launch(
      const jobs::LaunchRequest&, jobs::WorkerListener&) override {
    return absl::UnimplementedError("no worker here");
  }
};

// This machine; the worker is the fake one.
class MachineExaminerTest : public testing::Test {
 protected:
  MachineExaminerTest() {
    fs::create_directories(folder_ / "tmp");
    options_.mpsd_version = MPSD_VERSION;
    options_.state_dir = folder_;
    options_.verdict_path = folder_ / "selftest.json";
    options_.gates.worker_path = fs::path(MPSD_TEST_BINARY_DIR) / "fake_worker";
    options_.gates.temporary_dir = folder_ / "tmp";
    options_.gates.limit = absl::Minutes(2);
    options_.gates.environment = {{"FAKE_WORKER_GATES_LOG", Log().string()},
                                  {"OMP_WAIT_POLICY", "PASSIVE"}};
    options_.places.root = folder_ / "root";
    options_.places.home = folder_ / "home";
    options_.queue = [this] { return queue_; };
  }
  fs::path Log() const { return folder_ / "looked"; }
  // How many workers have looked.
  size_t Looked() const {
    std::error_code none;
    const auto size = fs::file_size(Log(), none);
    return none ? 0 : size;
  }
  Facts Examine(MachineExaminer& examiner, bool deep = false) {
    const auto facts = examiner.Examine(deep, Wanted);
    EXPECT_TRUE(facts.ok()) << facts.status();
    return facts.ok() ? *facts : Facts{};
  }

  const fs::path folder_ = testing_support::FreshFolder("examiner");
  MachineExaminer::Options options_;
  jobs::QueueInfo queue_;
  fakes::FakeClock clock_;
  IdleLauncher idle_;
};

TEST_F(MachineExaminerTest, ReportsThisMachineAndAWorkersTorch) {
  options_.folders = {{"cache", "/", std::nullopt}};
  MachineExaminer examiner(options_, clock_);
  const Facts facts = Examine(examiner);
  EXPECT_NE(facts.machine.architecture, "");
  EXPECT_GE(facts.machine.cores.all, 1);
  EXPECT_EQ(facts.worker.end, WorkerGates::End::kDone);
  EXPECT_EQ(facts.worker.torch_version, "2.15.0");
  EXPECT_TRUE(facts.disk.free_bytes.has_value());
  EXPECT_FALSE(facts.disk.speed.has_value());
  ASSERT_EQ(facts.mounts.size(), 2u);
  EXPECT_EQ(facts.mounts[0].what, "state");
  EXPECT_TRUE(facts.mounts[1].mount.has_value());
  EXPECT_EQ(facts.selftest.state, Selftest::State::kSkipped);
  EXPECT_GE(facts.open_descriptors.value_or(0), 3);
  EXPECT_EQ(facts.service.file, "");
  EXPECT_EQ(facts.time, clock_.Now());
  EXPECT_EQ(facts.worker.environment.at("OMP_WAIT_POLICY"), "PASSIVE");
}

TEST_F(MachineExaminerTest, FiftyAtOnceStartOneWorker) {
  MachineExaminer examiner(options_, clock_);
  std::vector<std::thread> askers;
  for (int i = 0; i < 50; ++i) {
    askers.emplace_back([&] {
      EXPECT_EQ(Examine(examiner).worker.end, WorkerGates::End::kDone);
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(Looked(), 1u);
  // An answer that is ten seconds old is not reused.
  clock_.Advance(absl::Seconds(11));
  Examine(examiner);
  EXPECT_EQ(Looked(), 2u);
}

TEST_F(MachineExaminerTest, AWorkerThatFailsIsAFinding) {
  const std::pair<const char*, WorkerGates::End> ways[] = {
      {"crash", WorkerGates::End::kCrashed},
      {"hang", WorkerGates::End::kTooSlow},
      {"flood", WorkerGates::End::kTooSlow},
      {"garbage", WorkerGates::End::kNoSense}};
  for (const auto& [way, end] : ways) {
    // Only those that never end are to reach the limit.
    options_.gates.limit = end == WorkerGates::End::kTooSlow
                               ? absl::Seconds(2)
                               : absl::Seconds(50);
    options_.gates.environment["FAKE_WORKER_GATES"] = way;
    MachineExaminer examiner(options_, clock_);
    const Facts facts = Examine(examiner);
    EXPECT_EQ(facts.worker.end, end) << way;
    EXPECT_NE(facts.worker.problem, "") << way;
  }
  options_.gates.worker_path = folder_ / "none";
  MachineExaminer examiner(options_, clock_);
  EXPECT_THAT(Examine(examiner).worker.problem, HasSubstr("cannot start"));
}

TEST_F(MachineExaminerTest, EndsIfTheCallerIsGone) {
  options_.gates.environment["FAKE_WORKER_GATES"] = "hang";
  MachineExaminer examiner(options_, clock_);
  const auto facts =
      examiner.Examine(false, [] { return absl::CancelledError("gone"); });
  EXPECT_TRUE(absl::IsCancelled(facts.status())) << facts.status();
}

TEST_F(MachineExaminerTest, DeepMeasuresTheDiskOnceUnlessItIsFull) {
  MachineExaminer examiner(options_, clock_);
  const Facts facts = Examine(examiner, /*deep=*/true);
  ASSERT_TRUE(facts.disk.speed.has_value()) << facts.disk.speed_problem;
  EXPECT_GT(facts.disk.speed->write_bytes_per_second, 0);
  // It is kept for those who ask without.
  EXPECT_EQ(Examine(examiner).disk.speed->time, facts.disk.speed->time);
  EXPECT_EQ(Examine(examiner, true).disk.speed->time, facts.disk.speed->time);
  // A full disk is not measured.
  options_.min_free_bytes = int64_t{1} << 60;
  MachineExaminer full(options_, clock_);
  const Facts none = Examine(full, /*deep=*/true);
  EXPECT_FALSE(none.disk.speed.has_value());
  EXPECT_THAT(none.disk.speed_problem, HasSubstr("nearly full"));
}

// The self-test's worker is a script, which says how often it ran.
class DeepTest : public MachineExaminerTest {
 protected:
  DeepTest() {
    test_.worker_path = folder_ / "worker";
    test_.verdict_path = options_.verdict_path;
    test_.log_path = folder_ / "selftest.log";
    std::ofstream(test_.worker_path)
        << "#!/bin/sh\necho >> '" << (folder_ / "tested").string() << "'\n"
        << "echo '{\"passed\": true, \"identity\": {\"device\": \"mps\"}}' "
           "> \"$3\"\n";
    fs::permissions(test_.worker_path, fs::perms::owner_all);
  }
  size_t Tested() const { return fs::file_size(folder_ / "tested"); }
  Selftest Settled(MachineExaminer& examiner) {
    for (int i = 0; i < 3000; ++i) {
      const Selftest test = Examine(examiner).selftest;
      if (!test.running) return test;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return {};
  }
  supervisor::TestedLauncher::Options test_;
};

TEST_F(DeepTest, RunsTheSelftestUnlessItsVerdictIsYoungOrAJobRuns) {
  supervisor::TestedLauncher tested(idle_, test_);
  options_.tested = &tested;
  clock_.Advance(absl::Now() - clock_.Now());
  MachineExaminer examiner(options_, clock_);
  EXPECT_EQ(Settled(examiner).state, Selftest::State::kPassed);
  EXPECT_EQ(Tested(), 1u);
  Examine(examiner, /*deep=*/true);
  EXPECT_EQ(Settled(examiner).device, "mps");
  EXPECT_EQ(Tested(), 1u);
  clock_.Advance(absl::Minutes(11));
  EXPECT_TRUE(Examine(examiner, /*deep=*/true).selftest.running ||
              Tested() == 2);
  EXPECT_EQ(Settled(examiner).state, Selftest::State::kPassed);
  EXPECT_EQ(Tested(), 2u);
  // It runs no worker next to a job.
  clock_.Advance(absl::Hours(1));
  queue_.running_job_id = "01KAH0000000000000000000AA";
  EXPECT_FALSE(Examine(examiner, /*deep=*/true).selftest.running);
  EXPECT_EQ(Tested(), 2u);
}

TEST(PickOthers, LeavesMpsdAndItsWorkersOut) {
  std::vector<host::Process> all = {{1, 0, "init", 1000},
                                    {50, 1, "mpsd", 5000},
                                    {51, 50, "mpsd-worker", 9000},
                                    {60, 1, "big\x1b[2J", 8000},
                                    {61, 1, "gpu", std::nullopt}};
  for (int i = 0; i < 100; ++i) all.push_back({100 + i, 1, "small", 10});
  const auto others = PickOthers(all, {61, 51}, 50);
  ASSERT_EQ(others.size(), 11u);
  EXPECT_EQ(others[0].pid, 60);
  EXPECT_TRUE(base::IsPrintable(others[0].name));
  EXPECT_EQ(others[1].pid, 1);
  EXPECT_EQ(others[10].pid, 61);
  EXPECT_TRUE(others[10].uses_gpu);
}

}  // namespace

}  // namespace mpsd::doctor
