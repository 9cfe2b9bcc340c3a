// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/worker_gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "core/base/printable.h"

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
}

// Lines of a library on stdout are no part of the answer.
TEST(ParseGates, PassesOverOtherLines) {
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

}  // namespace
}  // namespace mpsd::doctor
