// SPDX-License-Identifier: Apache-2.0
#include "client/round_trip.h"

#include <vector>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// Whose monotonic times are those of a list, one after the other.
class ListedClock final : public base::Clock {
 public:
  absl::Time Now() const override { return kNow; }
  absl::Duration Monotonic() const override {
    const absl::Duration next = times_.front();
    if (times_.size() > 1) times_.erase(times_.begin());
    return next;
  }
  mutable std::vector<absl::Duration> times_;
};

class RoundTripTest : public ClientTest {
 protected:
  RoundTripTest() {
    terminal_.clock = &listed_;
    job_ = Write("job.json", R"({"model": "org/id",
      "dataset": {"train": ["/data/of/the/daemon.jsonl"]}})");
    AddJob(kId, v1::JOB_STATE_QUEUED);
  }
  // What `submit` notes where the daemon's two answers take so long.
  double Noted(absl::Duration first, absl::Duration second) {
    const absl::Duration begin = absl::Seconds(100);
    listed_.times_ = {begin, begin + first, begin, begin + second, begin};
    data().submitted.clear();
    const Result result = RunVerb({"submit", job_, "--detach"});
    EXPECT_EQ(result.code, 0) << result.err;
    if (data().submitted.size() != 1u) return -1;
    EXPECT_TRUE(data().submitted[0].has_round_trip_seconds());
    return data().submitted[0].round_trip_seconds();
  }

  ListedClock listed_;
  std::string job_;
};

TEST_F(RoundTripTest, TheFirstCallsConnectionDoesNotCount) {
  EXPECT_DOUBLE_EQ(Noted(absl::Seconds(4), absl::Milliseconds(20)), 0.02);
  EXPECT_DOUBLE_EQ(Noted(absl::Milliseconds(20), absl::Seconds(4)), 0.02);
}

// A clock that jumps, and a machine that slept: mpsd would refuse them.
TEST_F(RoundTripTest, IsWithinWhatMayBeSaid) {
  EXPECT_EQ(Noted(absl::Hours(4), absl::Hours(3)), 600);
  EXPECT_EQ(Noted(absl::Seconds(-4), absl::Seconds(-5)), 0);
}

TEST_F(RoundTripTest, WithoutADaemonNothingIsNoted) {
  daemon_->Stop();
  listed_.times_ = {absl::ZeroDuration()};
  EXPECT_EQ(RunVerb({"submit", job_, "--detach"}).code, 3);
  EXPECT_TRUE(data().submitted.empty());
}

}  // namespace
}  // namespace mpsd::client
