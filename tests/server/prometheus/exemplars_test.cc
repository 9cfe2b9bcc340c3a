// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/exemplars.h"

#include <gtest/gtest.h>

#include <limits>

namespace mpsd::prometheus {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ExemplarsTest : public testing::Test {
 protected:
  void Observe(const std::string& job, double value,
               const std::string& device = "mps") {
    exemplars_.Observe("h", {{"device", device}}, {1, 2},
                       {job, value, absl::UnixEpoch()});
  }
  std::string JobAt(double bound, const std::string& device = "mps") const {
    const auto exemplar = exemplars_.Find("h", {{"device", device}}, bound);
    return exemplar ? exemplar->job_id : "";
  }

  Exemplars exemplars_;
};

TEST_F(ExemplarsTest, TheLastOfEachBucketIsKept) {
  Observe("A", 0.5);
  Observe("B", 1);  // an upper bound belongs to its bucket
  Observe("C", 1.5);
  Observe("D", 3);
  EXPECT_EQ(JobAt(1), "B");
  EXPECT_EQ(JobAt(2), "C");
  EXPECT_EQ(JobAt(kInfinity), "D");
}

TEST_F(ExemplarsTest, ASeriesHasItsOwn) {
  Observe("A", 0.5, "mps");
  Observe("B", 0.5, "cpu");
  EXPECT_EQ(JobAt(1, "mps"), "A");
  EXPECT_EQ(JobAt(1, "cpu"), "B");
  EXPECT_EQ(JobAt(1, "cuda"), "");
  EXPECT_EQ(JobAt(2, "mps"), "");
  EXPECT_FALSE(exemplars_.Find("other", {{"device", "mps"}}, 1));
}

TEST_F(ExemplarsTest, ADeletedJobStandsForNothing) {
  Observe("A", 0.5);
  Observe("A", 3);
  Observe("B", 1.5);
  exemplars_.Forget("A");
  EXPECT_EQ(JobAt(1), "");
  EXPECT_EQ(JobAt(2), "B");
  EXPECT_EQ(JobAt(kInfinity), "");
}

}  // namespace
}  // namespace mpsd::prometheus
