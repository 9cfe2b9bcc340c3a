// SPDX-License-Identifier: Apache-2.0
#include "client/text/host_text.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/format.h"
#include "core/base/certificates.h"

namespace mpsd::client {

namespace {

// Certificates with fewer days are worth a warning.
constexpr int64_t kFewDays = 14;

std::string Until(absl::Time expiry, absl::Time now) {
  const int64_t days = certificates::DaysLeft(expiry, now);
  return absl::StrCat("until ",
                      absl::FormatTime("%Y-%m-%d", expiry, absl::UTCTimeZone()),
                      " (", days, days == 1 ? " day)" : " days)");
}

std::string WayText(const v1::WhoAmIResponse& who, absl::Time now) {
  switch (who.way()) {
    case v1::WAY_SOCKET:
      return "by the socket";
    case v1::WAY_PAGE:
      return "by the web page";
    case v1::WAY_TOKEN:
      break;
    default:
      return "in a way this mpsctl does not know";
  }
  const v1::Token& token = who.token();
  return absl::StrCat("by token ", Printable(token.id()),
                      token.has_expire_time()
                          ? " " + Until(ToTime(token.expire_time()), now)
                          : ", which never expires");
}

}  // namespace

std::string RoleName(v1::Role role) {
  const std::string name = v1::Role_Name(role);
  return name.empty() ? absl::StrCat("role ", static_cast<int>(role))
                      : absl::AsciiStrToLower(name.substr(5));
}

std::string IdentityText(const v1::WhoAmIResponse& who, absl::Time now) {
  return absl::StrCat(who.user().empty() ? "-" : Printable(who.user()), ", ",
                      RoleName(who.role()), ", ", WayText(who, now));
}

std::string CertificateText(absl::Time expiry, absl::Time now) {
  const int64_t days = certificates::DaysLeft(expiry, now);
  if (days < 0) {
    return absl::StrCat(
        "EXPIRED on ",
        absl::FormatTime("%Y-%m-%d", expiry, absl::UTCTimeZone()),
        ": its admin renews it with `mpsd tls renew`");
  }
  const std::string text = Until(expiry, now);
  return days < kFewDays
             ? absl::StrCat(text, ": have its admin run `mpsd tls renew` SOON")
             : text;
}

namespace {

constexpr absl::Duration kIdle = absl::Minutes(1);

// "heavy" for THERMAL_LEVEL_HEAVY.
std::string Level(const std::string& name) {
  return absl::AsciiStrToLower(name.substr(name.rfind('_') + 1));
}

const char* Words(int reason) {
  switch (reason) {
    case v1::PAUSE_REASON_BATTERY:
      return "on battery or in Low Power Mode";
    case v1::PAUSE_REASON_THERMAL:
      return "too hot";
    case v1::PAUSE_REASON_MEMORY_PRESSURE:
      return "short of memory";
    case v1::PAUSE_REASON_QUIET_HOURS:
      return "quiet hours";
    case v1::PAUSE_REASON_USER_ACTIVE:
      return "somebody is using the machine";
    default:
      return "a reason this mpsctl does not know";
  }
}

void Add(std::string& text, const std::string& part) {
  absl::StrAppend(&text, text.empty() ? "" : ", ", part);
}

std::string PowerText(const v1::HostReading& host) {
  std::string text;
  if (host.has_on_battery()) text = host.on_battery() ? "battery" : "mains";
  if (host.has_battery_ratio()) {
    absl::StrAppend(&text, text.empty() ? "battery " : " ",
                    Percent(host.battery_ratio(), 0, "%"));
  }
  if (host.low_power_mode()) Add(text, "Low Power Mode");
  return text;
}

}  // namespace

std::string HostText(const v1::HostReading& host) {
  std::string text = PowerText(host);
  if (host.thermal_level() != v1::THERMAL_LEVEL_UNSPECIFIED) {
    Add(text, "heat " + Level(v1::ThermalLevel_Name(host.thermal_level())));
  }
  if (host.memory_pressure() != v1::MEMORY_PRESSURE_UNSPECIFIED) {
    Add(text, "memory pressure " +
                  Level(v1::MemoryPressure_Name(host.memory_pressure())));
  }
  if (host.has_swap_used_bytes()) {
    Add(text, Bytes(host.swap_used_bytes()) + " swap");
  }
  if (host.has_gpu_utilization_ratio()) {
    Add(text, "GPU busy " + Percent(host.gpu_utilization_ratio(), 0, "%"));
  }
  if (host.gpu_resets() > 0) {
    Add(text, absl::StrCat(host.gpu_resets(), " GPU resets"));
  }
  if (host.wired_limit_bytes() > 0) {
    Add(text, "GPU may wire " + Bytes(host.wired_limit_bytes()));
  }
  if (absl::Seconds(host.user_idle_seconds()) >= kIdle) {
    Add(text, "idle for " + Seconds(host.user_idle_seconds()));
  }
  return text;
}

std::string PauseReasonText(const v1::Pause& pause) {
  std::string reasons;
  for (int reason : pause.reasons()) Add(reasons, Words(reason));
  return reasons;
}

std::string PauseText(const v1::Pause& pause, absl::Time now) {
  if (pause.reasons().empty()) return "";
  std::string reasons = PauseReasonText(pause);
  if (!pause.has_since()) return reasons;
  const absl::Duration since = now - ToTime(pause.since());
  return absl::StrCat(pause.held() ? "held" : "about to be held", " for ",
                      Seconds(absl::ToDoubleSeconds(since)), ": ", reasons);
}

std::string FallbackText(const v1::Progress& progress) {
  const std::map<std::string, int64_t> sorted(
      progress.cpu_fallback_ops().begin(), progress.cpu_fallback_ops().end());
  std::string text;
  for (const auto& [op, count] : sorted) {
    Add(text, absl::StrCat(Printable(op), " ", count,
                           count == 1 ? " time" : " times"));
  }
  return text;
}

}  // namespace mpsd::client
