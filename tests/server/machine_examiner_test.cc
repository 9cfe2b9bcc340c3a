// SPDX-License-Identifier: Apache-2.0
#include "server/machine_examiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/text.h"
#include "server/planner/judge.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using doctor::Selftest;
using doctor::WorkerGates;
using testing::HasSubstr;

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
  doctor::Facts Examine(MachineExaminer& examiner, bool deep = false) {
    const auto facts = examiner.Examine(deep, Wanted);
    EXPECT_TRUE(facts.ok()) << facts.status();
    return facts.ok() ? *facts : doctor::Facts{};
  }

  const fs::path folder_ = testing_support::FreshFolder("examiner");
  MachineExaminer::Options options_;
  jobs::ManagerInfo queue_;
  fakes::FakeClock clock_;
  IdleLauncher idle_;
};

TEST_F(MachineExaminerTest, TellsOfThisMachineAndAWorkersTorch) {
  options_.folders = {{"cache", "/", std::nullopt}};
  MachineExaminer examiner(options_, clock_);
  const doctor::Facts facts = Examine(examiner);
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
  // An answer that is ten seconds old serves nobody.
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
    const doctor::Facts facts = Examine(examiner);
    EXPECT_EQ(facts.worker.end, end) << way;
    EXPECT_NE(facts.worker.problem, "") << way;
  }
  options_.gates.worker_path = folder_ / "none";
  MachineExaminer examiner(options_, clock_);
  EXPECT_THAT(Examine(examiner).worker.problem, HasSubstr("cannot start"));
}

TEST_F(MachineExaminerTest, NobodyWaitsNobodyIsAnswered) {
  options_.gates.environment["FAKE_WORKER_GATES"] = "hang";
  MachineExaminer examiner(options_, clock_);
  const auto facts =
      examiner.Examine(false, [] { return absl::CancelledError("gone"); });
  EXPECT_TRUE(absl::IsCancelled(facts.status())) << facts.status();
}

TEST_F(MachineExaminerTest, DeepMeasuresTheDiskOnceUnlessItIsFull) {
  MachineExaminer examiner(options_, clock_);
  const doctor::Facts facts = Examine(examiner, /*deep=*/true);
  ASSERT_TRUE(facts.disk.speed.has_value()) << facts.disk.speed_problem;
  EXPECT_GT(facts.disk.speed->write_bytes_per_second, 0);
  // It is kept for those who ask without.
  EXPECT_EQ(Examine(examiner).disk.speed->time, facts.disk.speed->time);
  EXPECT_EQ(Examine(examiner, true).disk.speed->time, facts.disk.speed->time);
  // A full disk is not measured.
  options_.min_free_bytes = int64_t{1} << 60;
  MachineExaminer full(options_, clock_);
  const doctor::Facts none = Examine(full, /*deep=*/true);
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
  // It runs none beside a job.
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
}  // namespace mpsd
