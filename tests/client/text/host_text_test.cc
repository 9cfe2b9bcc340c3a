// SPDX-License-Identifier: Apache-2.0
#include "client/text/host_text.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/time/clock.h"

namespace mpsd::client {
namespace {

TEST(HostText, SaysWhatTheMachineSays) {
  v1::HostReading host;
  EXPECT_EQ(HostText(host), "");
  host.set_on_battery(true);
  host.set_battery_ratio(0.625);
  host.set_low_power_mode(true);
  host.set_thermal_level(v1::THERMAL_LEVEL_HEAVY);
  host.set_memory_pressure(v1::MEMORY_PRESSURE_WARN);
  host.set_swap_used_bytes(1'200'000'000);
  host.set_gpu_utilization_ratio(0.5);
  host.set_gpu_resets(2);
  host.set_wired_limit_bytes(30'000'000'000);
  host.set_user_idle_seconds(125);
  EXPECT_EQ(HostText(host),
            "battery 62%, Low Power Mode, heat heavy, memory pressure warn, "
            "1.2 GB swap, GPU busy 50%, 2 GPU resets, GPU may wire 30.0 GB, "
            "idle for 2m05s");
}

TEST(HostText, LeavesOutWhatNeedsNoWords) {
  v1::HostReading host;
  host.set_on_battery(false);
  host.set_low_power_mode(false);
  host.set_gpu_resets(0);
  host.set_wired_limit_bytes(0);
  host.set_user_idle_seconds(3);
  EXPECT_EQ(HostText(host), "mains");
}

TEST(PauseText, NamesTheReasons) {
  v1::Pause pause;
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_EQ(PauseText(pause, now), "");
  EXPECT_EQ(PauseReasonText(pause), "");
  pause.add_reasons(v1::PAUSE_REASON_THERMAL);
  pause.add_reasons(v1::PAUSE_REASON_QUIET_HOURS);
  EXPECT_EQ(PauseText(pause, now), "too hot, quiet hours");
  pause.mutable_since()->set_seconds(875);
  EXPECT_EQ(PauseText(pause, now),
            "about to be held for 2m05s: too hot, quiet hours");
  pause.set_held(true);
  EXPECT_EQ(PauseText(pause, now), "held for 2m05s: too hot, quiet hours");
  EXPECT_EQ(PauseReasonText(pause), "too hot, quiet hours");
}

TEST(PauseText, HasWordsForEveryReason) {
  std::set<std::string> texts;
  for (int i = v1::PauseReason_MIN + 1; i <= v1::PauseReason_MAX; ++i) {
    v1::Pause pause;
    pause.add_reasons(static_cast<v1::PauseReason>(i));
    texts.insert(PauseText(pause, absl::Now()));
  }
  EXPECT_EQ(static_cast<int>(texts.size()), v1::PauseReason_MAX);
  for (const std::string& text : texts) {
    EXPECT_EQ(text.find("does not know"), std::string::npos);
  }
}

TEST(FallbackText, SortsTheOperators) {
  v1::Progress progress;
  EXPECT_EQ(FallbackText(progress), "");
  (*progress.mutable_cpu_fallback_ops())["aten::b"] = 1;
  (*progress.mutable_cpu_fallback_ops())["aten::a"] = 12;
  EXPECT_EQ(FallbackText(progress), "aten::a 12 times, aten::b 1 time");
}

// 2026-01-02 03:04:05 UTC.
const absl::Time kToday = absl::FromUnixSeconds(1767323045);

TEST(IdentityText, EachWay) {
  v1::WhoAmIResponse who;
  who.set_user("ann");
  who.set_role(v1::ROLE_ADMIN);
  who.set_way(v1::WAY_SOCKET);
  EXPECT_EQ(IdentityText(who, kToday), "ann, admin, by the socket");
  who.set_role(v1::ROLE_USER);
  who.set_way(v1::WAY_TOKEN);
  who.mutable_token()->set_id("0a1b2c3d4e5f");
  EXPECT_EQ(IdentityText(who, kToday),
            "ann, user, by token 0a1b2c3d4e5f, which never expires");
  who.mutable_token()->mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(kToday + absl::Hours(24 * 89 + 1)));
  EXPECT_EQ(IdentityText(who, kToday),
            "ann, user, by token 0a1b2c3d4e5f until 2026-04-01 (89 days)");
}

TEST(IdentityText, OfAnyServer) {
  v1::WhoAmIResponse who;
  who.set_role(static_cast<v1::Role>(77));
  who.set_way(static_cast<v1::Way>(77));
  EXPECT_EQ(IdentityText(who, kToday),
            "-, role 77, in a way this mpsctl does not know");
  who.set_user("a\x1b[2J\nb");
  who.set_way(v1::WAY_TOKEN);
  who.mutable_token()->set_id("\x1b]0;x\x07");
  const std::string text = IdentityText(who, kToday);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(CertificateText, WarnsUnderFourteenDays) {
  const auto in = [](int days) {
    return CertificateText(kToday + absl::Hours(24 * days + 1), kToday);
  };
  EXPECT_EQ(in(365), "until 2027-01-02 (365 days)");
  EXPECT_EQ(in(14), "until 2026-01-16 (14 days)");
  EXPECT_EQ(in(13),
            "until 2026-01-15 (13 days): have its admin run `mpsd tls renew` "
            "SOON");
  EXPECT_EQ(in(1),
            "until 2026-01-03 (1 day): have its admin run `mpsd tls renew` "
            "SOON");
  EXPECT_EQ(in(-2),
            "EXPIRED on 2025-12-31: its admin renews it with `mpsd tls renew`");
}

}  // namespace
}  // namespace mpsd::client
