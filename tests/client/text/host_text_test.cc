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
  pause.add_reasons(v1::PAUSE_REASON_THERMAL);
  pause.add_reasons(v1::PAUSE_REASON_QUIET_HOURS);
  EXPECT_EQ(PauseText(pause, now), "too hot, quiet hours");
  pause.mutable_since()->set_seconds(875);
  EXPECT_EQ(PauseText(pause, now),
            "about to be held for 2m05s: too hot, quiet hours");
  pause.set_held(true);
  EXPECT_EQ(PauseText(pause, now), "held for 2m05s: too hot, quiet hours");
}

TEST(PauseReasonText, NamesTheReasonsAlone) {
  v1::Pause pause;
  EXPECT_EQ(PauseReasonText(pause), "");
  pause.add_reasons(v1::PAUSE_REASON_THERMAL);
  pause.add_reasons(v1::PAUSE_REASON_QUIET_HOURS);
  pause.mutable_since()->set_seconds(1);
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

}  // namespace
}  // namespace mpsd::client
