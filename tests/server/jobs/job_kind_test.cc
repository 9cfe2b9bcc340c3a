// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/jobs/job.h"

namespace mpsd::jobs {
namespace {

TEST(JobKind, EveryKindHasANameAndANumberOfItsOwn) {
  std::set<std::string> names;
  for (JobKind kind : kAllJobKinds) {
    EXPECT_NE(Name(kind), "unknown");
    EXPECT_TRUE(names.insert(std::string(Name(kind))).second) << Name(kind);
    EXPECT_EQ(report::Numbered(kJobKinds, static_cast<int64_t>(kind)), kind);
  }
}

// Rows and clients of earlier versions have it.
TEST(JobKind, TheNumbersAreKept) {
  EXPECT_EQ(report::Numbered(kJobKinds, 1), JobKind::kTraining);
  EXPECT_EQ(report::Numbered(kJobKinds, 6), JobKind::kSmoke);
  EXPECT_EQ(report::Numbered(kJobKinds, 7), std::nullopt) << "it was one";
}

TEST(JobKind, OtherNumbersAreNone) {
  EXPECT_EQ(report::Numbered(kJobKinds, 0), std::nullopt);
  EXPECT_EQ(report::Numbered(kJobKinds, 99), std::nullopt);
  EXPECT_EQ(Name(static_cast<JobKind>(99)), "unknown");
}

}  // namespace
}  // namespace mpsd::jobs
