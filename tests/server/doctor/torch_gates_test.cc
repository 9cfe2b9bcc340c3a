// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/doctor/fake_machine.h"

namespace mpsd::doctor {
namespace {

using runbook::Verdict;
using testing::HasSubstr;
using End = WorkerGates::End;

// A worker that ended badly tells nothing else.
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
        "torch.matmul", kFail, "made on cpu"},
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
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  EXPECT_THAT(FindingOf(facts, "torch.matmul").found,
              HasSubstr("on the processor"));
}

// "2.15.0+cu130" is 2.15.0.
TEST(TorchGates, ABuildsNameIsNoOtherRelease) {
  Facts facts = HealthyLinux();
  facts.worker.torch_version = "2.15.0+cu130";
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
}

// Beside a job a second worker may find no memory.
TEST(TorchGates, AWorkerThatFailsBesideAJobIsNotTold) {
  Facts facts = HealthyMac();
  facts.running_job = "01KAH0000000000000000000AA";
  Break(facts, End::kCrashed, "out of memory");
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  const runbook::Finding finding = FindingOf(facts, "torch.worker");
  EXPECT_EQ(finding.verdict, Verdict::kNotTold);
  EXPECT_THAT(finding.found, HasSubstr("01KAH0000000000000000000AA"));
}

TEST(TorchGates, ATestThatRunsHasNoVerdictYet) {
  Facts facts = HealthyMac();
  facts.selftest.running = true;
  EXPECT_EQ(FindingOf(facts, "device.selftest").verdict, Verdict::kNotTold);
}

}  // namespace
}  // namespace mpsd::doctor
