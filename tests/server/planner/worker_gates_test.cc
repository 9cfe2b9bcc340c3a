// SPDX-License-Identifier: Apache-2.0
#include "server/planner/worker_gates.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/text.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/planner/fake_machine.h"

namespace mpsd::doctor {
namespace {

using End = WorkerGates::End;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

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

TEST(ReadGates, SaysHowAndWhereTheWorkerEnded) {
  const auto read = [](const std::string& output, std::optional<int> status) {
    return ReadGates(output, status, absl::Seconds(20));
  };
  EXPECT_EQ(read(Whole(), 0).end, End::kDone);
  const WorkerGates slow = read("", std::nullopt);
  EXPECT_EQ(slow.end, End::kTooSlow);
  EXPECT_THAT(slow.problem, HasSubstr("after 20s while it looked for"));
  const WorkerGates crashed = read(std::string(kFacts) + "\n", SIGABRT);
  EXPECT_EQ(crashed.end, End::kCrashed);
  EXPECT_THAT(crashed.problem, HasSubstr("signal 6 in a product"));
  // What it said before is told all the same.
  EXPECT_EQ(crashed.torch_version, "2.15.0");
  const WorkerGates failed = read(Whole(), 1 << 8);
  EXPECT_EQ(failed.end, End::kCrashed);
  EXPECT_THAT(failed.problem, HasSubstr("exit status 1 at its end"));
  EXPECT_EQ(read("", 0).end, End::kNoSense);
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

TEST_F(SelftestVerdictTest, TellsVerdictDeviceAndAge) {
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

TEST_F(SelftestVerdictTest, WhatIsNoVerdictTellsNothing) {
  EXPECT_EQ(ReadSelftest("/nonexistent/verdict").state, State::kNotTold);
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"passed\": 1}"),
        std::string("{\"passed\":"), std::string(100'000, '{')}) {
    EXPECT_EQ(Read(text).state, State::kNotTold) << text.substr(0, 40);
  }
}

using runbook::Verdict;
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
        "torch.matmul", kFail, "computed on cpu"},
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

// Beside a job a second worker may find no memory.
TEST(TorchGates, AWorkerThatFailsBesideAJobIsNotTold) {
  Facts facts = HealthyMac();
  facts.running_job = "01KAH0000000000000000000AA";
  Break(facts, End::kCrashed, "out of memory");
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  const runbook::Finding finding = FindingOf(facts, "torch.worker");
  EXPECT_EQ(finding.verdict, Verdict::kNotTold);
  EXPECT_THAT(finding.found, HasSubstr("01KAH0000000000000000000AA"));
  // A test that runs has no verdict yet.
  facts.selftest.running = true;
  EXPECT_EQ(FindingOf(facts, "device.selftest").verdict, Verdict::kNotTold);
}

}  // namespace
}  // namespace mpsd::doctor
