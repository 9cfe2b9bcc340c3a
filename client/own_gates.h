// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_OWN_GATES_H_
#define MPSD_CLIENT_OWN_GATES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/runbook/thresholds.h"
#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/finding.pb.h"

// The gates of `mpsctl doctor` between this machine and the daemon's.
namespace mpsd::client {

// `why`: empty where the daemon answered.
v1::Finding ReachableGate(const std::string& target, const std::string& why);

// mpsctl's release against the daemon's.
v1::Finding VersionGate(const std::string& mpsctl,
                        const v1::InfoResponse& info);

// The median of the times that a small call took; `times` is not empty.
v1::Finding RoundTripGate(std::vector<absl::Duration> times,
                          const runbook::Thresholds& thresholds);

// By how much the daemon's clock differs from this one: `daemon` was read just
// before the answer left, which arrived at `arrived` after half a round trip.
v1::Finding ClockGate(absl::Time daemon, absl::Time arrived,
                      absl::Duration round_trip,
                      const runbook::Thresholds& thresholds);

// nullopt where the daemon has no certificate, as without ports.
std::optional<v1::Finding> CertificateGate(
    const v1::WhoAmIResponse& who, absl::Time now,
    const runbook::Thresholds& thresholds);

absl::Duration Median(std::vector<absl::Duration> times);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_OWN_GATES_H_
