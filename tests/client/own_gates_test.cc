// SPDX-License-Identifier: Apache-2.0
#include "client/own_gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1767323045);
const runbook::Thresholds kOwn;

TEST(OwnGates, Reachable) {
  EXPECT_EQ(ReachableGate("unix:/x", "").verdict(), v1::VERDICT_PASS);
  const v1::Finding away = ReachableGate("unix:/x", "no such socket");
  EXPECT_EQ(away.verdict(), v1::VERDICT_FAIL);
  EXPECT_THAT(away.found(), HasSubstr("unix:/x: no such socket"));
  EXPECT_NE(away.advice(), "");
}

TEST(OwnGates, Version) {
  v1::InfoResponse info;
  info.set_version("0.2.0");
  EXPECT_EQ(VersionGate("0.2.0", info).verdict(), v1::VERDICT_PASS);
  const v1::Finding skew = VersionGate("0.1.0", info);
  EXPECT_EQ(skew.verdict(), v1::VERDICT_WARN);
  EXPECT_EQ(skew.found(), "mpsctl 0.1.0, mpsd 0.2.0");
}

TEST(OwnGates, RoundTripIsTheMedian) {
  std::vector<absl::Duration> times(5, absl::Milliseconds(2));
  times[0] = times[1] = absl::Seconds(9);
  const v1::Finding near = RoundTripGate(times, kOwn);
  EXPECT_EQ(near.verdict(), v1::VERDICT_PASS);
  EXPECT_DOUBLE_EQ(near.value(), 0.002);
  EXPECT_EQ(near.threshold(), 0.25);
  times[2] = absl::Seconds(1);
  EXPECT_EQ(RoundTripGate(times, kOwn).verdict(), v1::VERDICT_WARN);
}

TEST(OwnGates, ClockSkewLeavesTheWayOut) {
  const absl::Duration trip = absl::Seconds(1);
  // Half a second under way: the clocks are equal.
  const v1::Finding equal =
      ClockGate(kNow - absl::Milliseconds(500), kNow, trip, kOwn);
  EXPECT_EQ(equal.verdict(), v1::VERDICT_PASS);
  EXPECT_EQ(equal.found(), "the clocks agree");
  const v1::Finding ahead =
      ClockGate(kNow + absl::Minutes(5), kNow, absl::ZeroDuration(), kOwn);
  EXPECT_EQ(ahead.verdict(), v1::VERDICT_WARN);
  EXPECT_THAT(ahead.found(), HasSubstr("300.0 s ahead"));
  const v1::Finding behind =
      ClockGate(kNow - absl::Seconds(3), kNow, absl::ZeroDuration(), kOwn);
  EXPECT_EQ(behind.verdict(), v1::VERDICT_WARN);
  EXPECT_THAT(behind.found(), HasSubstr("3.0 s behind"));
}

TEST(OwnGates, CertificateDays) {
  v1::WhoAmIResponse who;
  EXPECT_FALSE(CertificateGate(who, kNow, kOwn).has_value());
  const auto verdict = [&](absl::Duration left) {
    who.mutable_certificate_expire_time()->set_seconds(
        absl::ToUnixSeconds(kNow + left));
    return CertificateGate(who, kNow, kOwn)->verdict();
  };
  EXPECT_EQ(verdict(absl::Hours(24 * 90)), v1::VERDICT_PASS);
  EXPECT_EQ(verdict(absl::Hours(24 * 3)), v1::VERDICT_WARN);
  EXPECT_EQ(verdict(-absl::Hours(1)), v1::VERDICT_FAIL);
}

}  // namespace
}  // namespace mpsd::client
