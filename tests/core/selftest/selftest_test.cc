// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/selftest.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace mpsd::selftest {
namespace {

using testing::HasSubstr;

Check WithError(const std::string& name, double error) {
  return {name, "3 × 4", 0.1, [=](device::Device&) { return error; }};
}

TEST(SelftestTest, AnErrorAboveItsToleranceFails) {
  const auto device = *device::OpenCpu();
  std::vector<std::string> seen;
  const Report report =
      RunChecks(*device, {WithError("good", 0.1), WithError("bad", 0.2)},
                [&](const Result& result) { seen.push_back(result.kernel); });
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.Summary(), "1 of 2 checks failed: bad (3 × 4)");
  EXPECT_THAT(seen, testing::ElementsAre("good", "bad"));
  EXPECT_TRUE(RunChecks(*device, {WithError("good", 0)}).passed());
}

TEST(SelftestTest, NumbersThatAreNoneFail) {
  const auto device = *device::OpenCpu();
  for (const double error : {std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(RunChecks(*device, {WithError("odd", error)}).passed())
        << error;
  }
}

TEST(SelftestTest, AnExceptionFailsItsCheckAlone) {
  const auto device = *device::OpenCpu();
  const Check throws = {"throws", "", 1, [](device::Device&) -> double {
                          TORCH_CHECK(false, "no such kernel\nline two");
                        }};
  const Report report = RunChecks(*device, {throws, WithError("good", 0)});
  EXPECT_EQ(report.results[0].failure, "no such kernel");
  EXPECT_TRUE(report.results[1].passed());
}

TEST(SelftestTest, TheTableHasALineACheck) {
  const Result good{"bmm", "2 × 3", 0.001, 0.01, ""};
  const Result wrong{"mm", "4", 3, 0.01, ""};
  const Result failed{"cat", "", 0, 0, "boom"};
  const std::string table = ToTable({{good, wrong, failed}, 0});
  EXPECT_THAT(table, HasSubstr("0.001"));
  EXPECT_THAT(table, HasSubstr("ok\n"));
  EXPECT_THAT(table, HasSubstr("WRONG\n"));
  EXPECT_THAT(table, HasSubstr("FAILED: boom\n"));
  // Columns stand below each other whatever the letters take.
  const std::string row = TableRow(good);
  EXPECT_EQ(row.find("0.001") - 1, TableHeader().find("error"));
}

TEST(SelftestTest, ASummaryNamesAtMostThree) {
  Report report;
  for (const char* kernel : {"k0", "k1", "k2", "k3", "k4"}) {
    report.results.push_back({kernel, "s", 1, 0, ""});
  }
  EXPECT_EQ(report.Summary(),
            "5 of 5 checks failed: k0 (s); k1 (s); k2 (s); …");
}

}  // namespace
}  // namespace mpsd::selftest
