// SPDX-License-Identifier: Apache-2.0
#include "core/spec/named_result.h"

#include <gtest/gtest.h>

#include <string>

namespace mpsd::spec {
namespace {

constexpr char kId[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

TEST(NamedResult, AnIdHas26LettersOfTheAlphabet) {
  EXPECT_TRUE(IsJobId(kId));
  for (const std::string bad :
       {"", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01ARZ3NDEKTSV4RRFFQ69G5FAVV",
        "01arz3ndektsv4rrffq69g5fav", "01ARZ3NDEKTSV4RRFFQ69G5FAI",
        "../../../../../../../etc/x", "01ARZ3NDEKTSV4RRFFQ69G5FA/"}) {
    EXPECT_FALSE(IsJobId(bad)) << bad;
  }
}

TEST(NamedResult, ANameIsJobAndAnId) {
  EXPECT_EQ(JobNamedBy(std::string("job:") + kId), kId);
  for (const std::string other :
       {"", "job", "job:", "job:x", "job:../../etc",
        "Job:01ARZ3NDEKTSV4RRFFQ69G5FAV", " job:01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "job:01ARZ3NDEKTSV4RRFFQ69G5FAV/x", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "./job:01ARZ3NDEKTSV4RRFFQ69G5FAV"}) {
    EXPECT_EQ(JobNamedBy(other), "") << other;
  }
  EXPECT_TRUE(NamesResult("job:"));
  EXPECT_TRUE(NamesResult("job:x"));
  EXPECT_FALSE(NamesResult("./job:x"));
  EXPECT_FALSE(NamesResult("jobs/x"));
}

}  // namespace
}  // namespace mpsd::spec
