// SPDX-License-Identifier: Apache-2.0
#include "server/planner/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <string>

#include "core/base/text.h"
#include "server/planner/examiner.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/planner/fake_machine.h"

namespace mpsd::doctor {

namespace {

namespace fs = std::filesystem;
using runbook::Verdict;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Judge, AHealthyMachineHasNoWarning) {
  EXPECT_THAT(Wrong(HealthyMac()), IsEmpty());
  EXPECT_THAT(Wrong(HealthyLinux()), IsEmpty());
  for (const runbook::Finding& finding : Judge(HealthyMac(), {})) {
    EXPECT_EQ(finding.verdict, Verdict::kPass) << finding.name;
    EXPECT_EQ(finding.advice, "") << finding.name;
    EXPECT_NE(finding.found, "") << finding.name;
  }
}

// Never a made-up value: a machine that says nothing is neither good nor bad.
TEST(Judge, AMachineThatReportsNothingIsUnknown) {
  Facts facts;
  facts.mounts = {{"state", "/srv/mpsd", std::nullopt}};
  std::set<std::string> passed;
  for (const runbook::Finding& finding : Judge(facts, {})) {
    EXPECT_LE(finding.verdict, Verdict::kPass) << finding.name;
    if (finding.verdict == Verdict::kPass) passed.insert(finding.name);
  }
  // Without a limit nothing is limited.
  EXPECT_EQ(passed,
            (std::set<std::string>{"limits.descriptors", "limits.processes",
                                   "environment.harmful"}));
}

TEST(Judge, ARequestsThresholdsCount) {
  const auto strict = runbook::Thresholds::FromMap(
      {{"doctor.disk_free", 1e12}, {"doctor.gpu_busy", 0.01}});
  ASSERT_TRUE(strict.ok());
  EXPECT_EQ(Wrong(HealthyMac(), *strict),
            (std::map<std::string, Verdict>{{"disk.free", kWarn},
                                            {"gpu.programs", kWarn}}));
}

// Names of programs, files and variables are what their authors chose.
TEST(Judge, NoNameSteersATerminal) {
  const std::string evil =
      "\x1b]0;PWNED\a\x1b[2J\n\r\xff\xe2\x80\xae" + std::string(5000, 'x');
  Facts facts = HealthyMac();
  facts.processes = {{7, evil, int64_t{40} << 30, true}};
  facts.host.gpu_utilization_ratio = 0.9;
  facts.mounts[1].folder = evil;
  facts.mounts[1].mount = host::Mount{evil, evil, evil, true, false};
  facts.service.file = evil;
  facts.service.runs_mpsd = false;
  facts.worker.environment["LD_" + evil] = evil;
  facts.expected_environment["LD_" + evil] = "other";
  facts.worker.environment["LD_PRELOAD"] = evil;
  facts.expected_environment["LD_PRELOAD"] = evil;
  const auto wrong = Wrong(facts);
  EXPECT_EQ(wrong.size(), 6u);
  for (const runbook::Finding& finding : Judge(facts, {})) {
    EXPECT_TRUE(base::IsPrintable(finding.found)) << finding.name;
    EXPECT_LE(finding.found.size(), 2000u) << finding.name;
  }
}

Variable Find(const Facts& facts, const std::string& name) {
  for (const Variable& variable : CompareEnvironments(facts)) {
    if (variable.name == name) return variable;
  }
  ADD_FAILURE() << name << " is not in the table";
  return {};
}

TEST(EnvironmentTable, HasTheThreeSideBySide) {
  Facts facts = HealthyMac();
  facts.service.environment["OMP_NUM_THREADS"] = "8";
  facts.daemon_environment["OMP_NUM_THREADS"] = "4";
  facts.daemon_environment["HOME"] = "/srv/ann";
  facts.expected_environment["OMP_NUM_THREADS"] = "4";
  facts.worker.environment["OMP_NUM_THREADS"] = "4";
  EXPECT_EQ(CompareEnvironments(facts).size(), 2u);  // not HOME, not PATH
  const Variable threads = Find(facts, "OMP_NUM_THREADS");
  EXPECT_EQ(threads.service, "8");
  EXPECT_EQ(threads.daemon, "4");
  EXPECT_EQ(threads.expected, "4");
  EXPECT_EQ(threads.worker, "4");
  EXPECT_NE(threads.drift, "");
  const Variable policy = Find(facts, "OMP_WAIT_POLICY");
  EXPECT_EQ(policy.service, std::nullopt);
  EXPECT_EQ(policy.drift, "");
}

// mpsd.toml is as curated as the plist.
TEST(EnvironmentTable, WhatMpsdTomlNamesIsNoDrift) {
  Facts facts = HealthyMac();
  facts.service.environment["OMP_NUM_THREADS"] = "8";
  facts.configured = {{"OMP_NUM_THREADS", "4"}, {"HF_HOME", "/srv/hf"}};
  facts.daemon_environment = facts.configured;
  EXPECT_EQ(Find(facts, "OMP_NUM_THREADS").service, "4");
  EXPECT_EQ(Find(facts, "OMP_NUM_THREADS").drift, "");
  EXPECT_EQ(Find(facts, "HF_HOME").drift, "");
  facts.daemon_environment["HF_HOME"] = "/tmp";
  EXPECT_NE(Find(facts, "HF_HOME").drift, "");
}

TEST(EnvironmentTable, ShowsNoSecret) {
  Facts facts = HealthyMac();
  facts.daemon_environment["HF_TOKEN"] = "hf_abc";
  facts.service.environment["HF_TOKEN"] = "hf_def";
  facts.expected_environment["HF_ENDPOINT"] = "https://ann:pw@hub";
  facts.worker.environment["HF_ENDPOINT"] = "set";
  const Variable token = Find(facts, "HF_TOKEN");
  EXPECT_EQ(token.daemon, "set");
  EXPECT_EQ(token.service, "set");
  // They are two secrets: that much is reported.
  EXPECT_NE(token.drift, "");
  EXPECT_EQ(Find(facts, "HF_ENDPOINT").expected, "set");
  EXPECT_EQ(Find(facts, "HF_ENDPOINT").drift, "");
}

// The worker escapes what it reports: bytes that are no text are no drift.
TEST(EnvironmentTable, AnyBytesAreComparedAndEscaped) {
  Facts facts = HealthyMac();
  const std::string evil = "\x1b]0;x\a\xff";
  facts.expected_environment["LC_ALL"] = evil;
  facts.worker.environment["LC_ALL"] = base::Printable(evil);
  EXPECT_EQ(Find(facts, "LC_ALL").drift, "");
  EXPECT_TRUE(base::IsPrintable(*Find(facts, "LC_ALL").expected));
}

TEST(EnvironmentTable, AFloodLeavesNoDriftOut) {
  Facts facts = HealthyMac();
  for (int i = 0; i < 1000; ++i) {
    facts.worker.environment["LD_A" + std::to_string(i)] = "1";
    facts.expected_environment["LD_A" + std::to_string(i)] = "1";
  }
  facts.worker.environment["LD_Z"] = "1";
  const std::vector<Variable> table = CompareEnvironments(facts);
  EXPECT_EQ(table.size(), 100u);
  EXPECT_TRUE(std::any_of(table.begin(), table.end(), [](const Variable& v) {
    return v.name == "LD_Z" && !v.drift.empty();
  }));
}

class DiskSpeedTest : public testing::Test {
 protected:
  DiskProbe probe_{.folder = testing_support::FreshFolder("probe"),
                   .bytes = 4 << 20};
};

// However slow the disk: one piece is written, and counts.
TEST_F(DiskSpeedTest, ASlowDiskIsMeasuredByLess) {
  probe_.patience = absl::ZeroDuration();
  probe_.bytes = 1 << 30;
  const auto speed = MeasureDisk(probe_);
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->read_bytes_per_second, 0);
}

TEST_F(DiskSpeedTest, ADiskThatIsNearlyFullIsLeftAlone) {
  probe_.keep_free_bytes = std::numeric_limits<int64_t>::max() / 2;
  const auto speed = MeasureDisk(probe_);
  EXPECT_TRUE(absl::IsResourceExhausted(speed.status())) << speed.status();
  EXPECT_THAT(std::string(speed.status().message()), HasSubstr("nearly full"));
  EXPECT_TRUE(fs::is_empty(probe_.folder));
  // A folder that is away is named.
  probe_.folder = "/nonexistent/folder";
  EXPECT_THAT(std::string(MeasureDisk(probe_).status().message()),
              HasSubstr("/nonexistent/folder"));
}

host::Mount Network() { return {"/mnt", "nfs", "nas:/models", true, false}; }

TEST(DiskGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"little room", [](Facts& f) { f.disk.free_bytes = 5'000'000'000; },
        "disk.free", kWarn, "4.66 GiB free of 931.32 GiB"},
       {"no room for a job", [](Facts& f) { f.disk.free_bytes = 1'000'000; },
        "disk.free", kFail, "976.6 KiB free"},
       {"a disk that writes slowly",
        [](Facts& f) { f.disk.speed->write_bytes_per_second = 20e6; },
        "disk.write", kWarn, "19.1 MiB/s"},
       {"a disk that reads slowly",
        [](Facts& f) { f.disk.speed->read_bytes_per_second = 50e6; },
        "disk.read", kWarn, "47.7 MiB/s"},
       {"the state folder on a network volume",
        [](Facts& f) { f.mounts[0].mount = Network(); }, "mount.state", kFail,
        "a network volume from nas:/models"},
       {"the state folder on a read-only volume",
        [](Facts& f) { f.mounts[0].mount->read_only = true; }, "mount.state",
        kFail, "read-only"},
       {"the cache on a network volume",
        [](Facts& f) { f.mounts[1].mount = Network(); }, "mount.cache", kWarn,
        "a network volume"},
       {"models on a network volume",
        [](Facts& f) { f.mounts[2].mount = Network(); }, "mount.models", kWarn,
        "/srv/models on nfs"},
       {"data on a network volume",
        [](Facts& f) { f.mounts[3].mount = Network(); }, "mount.data", kWarn,
        "/srv/data"}});
}

TEST(DiskGates, AnUnmeasuredSpeedIsUnknown) {
  Facts facts = HealthyMac();
  facts.disk.speed.reset();
  for (const char* gate : {"disk.write", "disk.read"}) {
    EXPECT_EQ(FindingOf(facts, gate).verdict, Verdict::kUnknown);
    EXPECT_THAT(FindingOf(facts, gate).found, HasSubstr("--deep"));
  }
  facts.disk.speed_problem = "the disk is nearly full";
  EXPECT_THAT(FindingOf(facts, "disk.read").found, HasSubstr("nearly full"));
}

TEST(MachineGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"Rosetta",
        [](Facts& f) {
          f.machine.architecture = "x86_64";
          f.machine.translated = true;
        },
        "machine.architecture", kFail, "translated by Rosetta"},
       {"an Intel Mac",
        [](Facts& f) {
          f.machine.architecture = "x86_64";
          f.machine.translated.reset();
        },
        "machine.architecture", kFail, "Intel"},
       {"an old macOS", [](Facts& f) { f.machine.macos_version = "14.7.1"; },
        "machine.system", kFail, "macOS 14.7.1"},
       {"the GPU may wire everything",
        [](Facts& f) { f.host.wired_limit_bytes = int64_t{47} << 30; },
        "machine.wired_limit", kWarn, "98 %"}});
}

TEST(LoadGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"the plug is out",
        [](Facts& f) {
          f.host.power_source = host::PowerSource::kBattery;
          f.host.battery_ratio = 0.62;
        },
        "power.source", kWarn, "battery, 62 %"},
       {"Low Power Mode", [](Facts& f) { f.host.low_power_mode = true; },
        "power.low_power_mode", kWarn, "on"},
       {"warm", [](Facts& f) { f.host.thermal = host::Thermal::kModerate; },
        "power.thermal", kWarn, "moderate"},
       {"hot", [](Facts& f) { f.host.thermal = host::Thermal::kHeavy; },
        "power.thermal", kFail, "heavy"},
       {"memory is short",
        [](Facts& f) { f.host.memory_pressure = host::MemoryPressure::kWarn; },
        "memory.pressure", kWarn, "warn"},
       {"memory is out",
        [](Facts& f) {
          f.host.memory_pressure = host::MemoryPressure::kCritical;
        },
        "memory.pressure", kFail, "critical"},
       {"the machine swaps",
        [](Facts& f) { f.host.swap_used_bytes = int64_t{9} << 30; },
        "memory.swap", kWarn, "9.00 GiB used"},
       {"a large program",
        [](Facts& f) {
          f.processes->push_back({99, "Photos", int64_t{7} << 30, false});
        },
        "memory.programs", kWarn, "Photos (pid 99, 7.00 GiB)"},
       {"others use the GPU",
        [](Facts& f) {
          f.host.gpu_utilization_ratio = 0.8;
          f.processes->push_back({98, "Blender", std::nullopt, true});
        },
        "gpu.programs", kWarn, "Blender (pid 98); busy 80 %"}});
}

TEST(LoadGates, AJobMayUseTheGpu) {
  Facts facts = HealthyMac();
  facts.host.gpu_utilization_ratio = 0.99;
  facts.running_job = "01KAH0000000000000000000AA";
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  EXPECT_THAT(FindingOf(facts, "gpu.programs").found,
              HasSubstr("a job of mpsd has the device"));
}

using End = WorkerGates::End;

// A worker that ended badly reports nothing else.
void Break(Facts& facts, End end, const std::string& problem) {
  facts.worker = {};
  facts.worker.end = end;
  facts.worker.problem = problem;
}

TEST(TorchGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"a worker that crashes",
        [](Facts& f) { Break(f, End::kCrashed, "crashed with signal 6"); },
        "torch.worker", kFail, "signal 6"},
       {"a worker that hangs",
        [](Facts& f) { Break(f, End::kTooSlow, "was killed after 20s"); },
        "torch.worker", kFail, "20s"},
       {"a worker that talks nonsense",
        [](Facts& f) { Break(f, End::kNoSense, "something else"); },
        "torch.worker", kFail, "something else"},
       {"a worker of another protocol",
        [](Facts& f) { f.worker.protocol_version = 6; }, "torch.protocol",
        kFail, "speaks 7"},
       {"a worker of another release",
        [](Facts& f) { f.worker.worker_version = "0.0.9"; }, "torch.protocol",
        kWarn, "0.0.9"},
       {"another torch than the worker was made with",
        [](Facts& f) { f.worker.torch_version = "2.11.0"; }, "torch.version",
        kFail, "2.11.0, built against 2.15.0"},
       {"an old torch",
        [](Facts& f) {
          f.worker.torch_version = f.worker.built_against = "2.13.1";
        },
        "torch.version", kFail, "2.13.1"},
       {"a torch without MPS",
        [](Facts& f) {
          f.worker.backends[0] = {"mps", false, false, "", "x"};
        },
        "device.mps", kFail, "built without it"},
       {"an MPS without a device",
        [](Facts& f) {
          f.worker.backends[0] = {"mps", true, false, "", "no device"};
        },
        "device.mps", kFail, "built, but not available: no device"},
       {"a wrong product", [](Facts& f) { f.worker.matmul->right = false; },
        "torch.matmul", kFail, "WRONG"},
       {"a product of the processor",
        [](Facts& f) { f.worker.matmul->result_device = "cpu"; },
        "torch.matmul", kFail, "requested on mps"},
       {"a self-test that failed",
        [](Facts& f) {
          f.selftest.state = Selftest::State::kFailed;
          f.selftest.summary = "1 of 9 checks failed: bmm";
        },
        "device.selftest", kFail, "bmm"},
       {"no self-test",
        [](Facts& f) { f.selftest.state = Selftest::State::kSkipped; },
        "device.selftest", kWarn, "--skip-selftest"},
       {"an old self-test",
        [](Facts& f) { f.selftest.time = kNow - absl::Hours(24 * 31); },
        "device.selftest", kWarn, "31 days ago"}});
}

TEST(TorchGates, FindACardThatIsAway) {
  ExpectEachFound(
      HealthyLinux(),
      {{"CUDA without a card",
        [](Facts& f) {
          f.worker.backends[1] = {"cuda", true, false, "", "none is visible"};
        },
        "device.cuda", kFail, "none is visible"},
       {"a card, and torch without CUDA",
        [](Facts& f) {
          f.worker.backends[1] = {"cuda", false, false, "", "no library"};
        },
        "device.cuda", kFail, "built without it"}});
}

// A machine with a processor alone is no faulty one.
TEST(TorchGates, LinuxWithoutACardTrainsOnTheProcessor) {
  Facts facts = HealthyLinux();
  facts.machine.nvidia = false;
  facts.worker.backends[1] = {"cuda", true, false, "", "no library"};
  facts.worker.matmul = Matmul{"cpu", "cpu", true, 0.001};
  facts.selftest.state = Selftest::State::kNothingToTest;
  EXPECT_THAT(Wrong(facts), IsEmpty());
  EXPECT_THAT(FindingOf(facts, "torch.matmul").found,
              HasSubstr("on the processor"));
  // A build's name is no other release.
  facts.worker.torch_version = "2.15.0+cu130";
  EXPECT_THAT(Wrong(facts), IsEmpty());
}

// A second worker next to a job may find no memory.
TEST(TorchGates, AWorkerThatFailsNextToAJobIsUnknown) {
  Facts facts = HealthyMac();
  facts.running_job = "01KAH0000000000000000000AA";
  Break(facts, End::kCrashed, "out of memory");
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  const runbook::Finding finding = FindingOf(facts, "torch.worker");
  EXPECT_EQ(finding.verdict, Verdict::kUnknown);
  EXPECT_THAT(finding.found, HasSubstr("01KAH0000000000000000000AA"));
  // A test that runs has no verdict yet.
  facts.selftest.running = true;
  EXPECT_EQ(FindingOf(facts, "device.selftest").verdict, Verdict::kUnknown);
}

TEST(ServiceGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"few descriptors", [](Facts& f) { f.limits.descriptors = 256; },
        "limits.descriptors", kWarn, "256 allowed, 40 open"},
       {"few processes", [](Facts& f) { f.limits.processes = 266; },
        "limits.processes", kWarn, "266"},
       {"started by hand despite its service",
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
  EXPECT_EQ(FindingOf(facts, "service.file").verdict, Verdict::kUnknown);
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
