// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::selftest {
namespace {

Identity AnIdentity() {
  return {"mps", "M4", "25B78", "2.15.0", "0.1", "c0ffee", {}};
}

TEST(VerdictTest, ComesBackAsItWasWritten) {
  const auto path = testing_support::FreshFolder("verdict") / "v.json";
  Report report;
  report.results = {{"mm", "2 × 3", std::numeric_limits<double>::infinity(),
                     0.1, "no such kernel"}};
  ASSERT_TRUE(WriteVerdict(path, AnIdentity(), report).ok());
  const auto verdict = ReadVerdict(path);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->identity, AnIdentity());
  EXPECT_FALSE(verdict->passed);
  EXPECT_EQ(verdict->summary, "1 of 1 checks failed: mm (2 × 3)");
}

TEST(VerdictTest, OneThatCannotBeReadIsNone) {
  const auto folder = testing_support::FreshFolder("verdict_bad");
  EXPECT_FALSE(ReadVerdict(folder / "absent.json").has_value());
  for (const char* text :
       {"", "[]", "{}", R"({"passed": true, "summary": "", "identity": 3})",
        R"({"passed": 1, "summary": "", "identity": {}})"}) {
    std::ofstream(folder / "bad.json") << text;
    EXPECT_FALSE(ReadVerdict(folder / "bad.json").has_value()) << text;
  }
}

// One of a release that checked less.
TEST(VerdictTest, OneThatDoesNotSayWhatItCheckedIsNone) {
  const auto path = testing_support::FreshFolder("verdict_old") / "v.json";
  ASSERT_TRUE(WriteVerdict(path, AnIdentity(), {}).ok());
  std::string text = *base::ReadFile(path);
  const size_t at = text.find("\"checks\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 8, "\"czechs\"");
  std::ofstream(path) << text;
  EXPECT_FALSE(ReadVerdict(path).has_value());
}

TEST(VerdictTest, TheIdentityIsThisMachines) {
  const auto device = *device::OpenCpu();
  const Identity identity = IdentityOf(*device, "2.15.0", "0.1", {});
  EXPECT_EQ(identity.device, "cpu");
  EXPECT_FALSE(identity.chip.empty());
  EXPECT_FALSE(OsBuild().empty());
  EXPECT_EQ(identity, IdentityOf(*device, "2.15.0", "0.1", {}));
  Sizes larger;
  larger.inner *= 2;
  EXPECT_NE(identity, IdentityOf(*device, "2.15.0", "0.1", larger));
  EXPECT_NE(identity, IdentityOf(*device, "2.16.0", "0.1", {}));
  EXPECT_EQ(identity.checks, Coverage(AllChecks({}, *device)));
}

}  // namespace
}  // namespace mpsd::selftest
