// SPDX-License-Identifier: Apache-2.0
#include "client/own_gates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

v1::Finding Told(const char* name, v1::Verdict verdict, std::string found,
                 const char* advice = "") {
  v1::Finding finding;
  finding.set_name(name);
  finding.set_verdict(verdict);
  finding.set_found(std::move(found));
  if (verdict != v1::VERDICT_PASS) finding.set_advice(advice);
  return finding;
}

// WARN where `value` is beyond what is allowed.
v1::Finding Compared(const char* name, std::string found, bool good,
                     double value, double threshold, const char* unit,
                     const char* advice) {
  v1::Finding finding = Told(name, good ? v1::VERDICT_PASS : v1::VERDICT_WARN,
                             std::move(found), advice);
  finding.set_value(value);
  finding.set_threshold(threshold);
  finding.set_unit(unit);
  return finding;
}

}  // namespace

v1::Finding ReachableGate(const std::string& target, const std::string& why) {
  if (why.empty()) {
    return Told("daemon.reachable", v1::VERDICT_PASS,
                absl::StrCat("mpsd answers at ", target));
  }
  return Told("daemon.reachable", v1::VERDICT_FAIL,
              absl::StrCat("no answer at ", target, ": ", why),
              "See that mpsd runs there (launchctl, systemctl), and that this "
              "is its address: --server, --context or --state-dir.");
}

v1::Finding VersionGate(const std::string& mpsctl,
                        const v1::InfoResponse& info) {
  const std::string found =
      absl::StrCat("mpsctl ", mpsctl, ", mpsd ", info.version());
  return Told("client.version",
              mpsctl == info.version() ? v1::VERDICT_PASS : v1::VERDICT_WARN,
              found, "Bring both to the same release.");
}

absl::Duration Median(std::vector<absl::Duration> times) {
  const auto middle = times.begin() + static_cast<long>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

v1::Finding RoundTripGate(std::vector<absl::Duration> times,
                          const runbook::Thresholds& thresholds) {
  const size_t count = times.size();
  const double seconds = absl::ToDoubleSeconds(Median(std::move(times)));
  const double most = thresholds.Get("doctor.round_trip");
  return Compared(
      "client.round_trip",
      absl::StrFormat("%.1f ms, the median of %d calls", 1000 * seconds, count),
      seconds <= most, seconds, most, "s",
      "The way to the daemon is slow: uploads of many files will "
      "take long; put them in one archive, or use a nearer way.");
}

v1::Finding ClockGate(absl::Time daemon, absl::Time arrived,
                      absl::Duration round_trip,
                      const runbook::Thresholds& thresholds) {
  const double skew =
      absl::ToDoubleSeconds(daemon - (arrived - round_trip / 2));
  const double size = skew < 0 ? -skew : skew;
  const double most = thresholds.Get("doctor.clock_skew");
  const std::string found =
      size < 0.05 ? "the clocks agree"
                  : absl::StrFormat("the daemon's clock is %.1f s %s", size,
                                    skew > 0 ? "ahead" : "behind");
  return Compared("client.clock", found, size <= most, size, most, "s",
                  "Set both clocks by the network: times of logs, tokens and "
                  "certificates are compared.");
}

std::optional<v1::Finding> CertificateGate(
    const v1::WhoAmIResponse& who, absl::Time now,
    const runbook::Thresholds& thresholds) {
  if (!who.has_certificate_expire_time()) return std::nullopt;
  const double days =
      absl::ToDoubleHours(ToTime(who.certificate_expire_time()) - now) / 24;
  const double least = thresholds.Get("doctor.certificate");
  const char* const renew =
      "On the daemon's machine: `mpsd tls renew`, or put a new certificate in "
      "its place, then SIGHUP.";
  if (days < 0) {
    v1::Finding ended = Compared("daemon.certificate", "it has ended", false,
                                 days, least, "days", renew);
    ended.set_verdict(v1::VERDICT_FAIL);
    return ended;
  }
  return Compared("daemon.certificate",
                  absl::StrFormat("valid for %.0f days", days), days >= least,
                  days, least, "days", renew);
}

}  // namespace mpsd::client
