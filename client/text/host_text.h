// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_HOST_TEXT_H_
#define MPSD_CLIENT_TEXT_HOST_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"

// Describes a caller's identity at a daemon.

// Describes the machine that jobs share with users.

namespace mpsd::client {

std::string RoleName(v1::Role role);  // "admin"

// "ann, user, by token 0a1b2c3d4e5f until 2026-12-01 (89 days)".
std::string IdentityText(const v1::WhoAmIResponse& who, absl::Time now);

// "until 2026-12-01 (89 days)"; with advice if it is about to expire or has
// expired.
std::string CertificateText(absl::Time expiry, absl::Time now);

// "battery 62%, heat nominal, memory pressure normal, 1.2 GB swap …"; empty for
// a machine that reports nothing.
std::string HostText(const v1::HostReading& host);

// "held for 2m05s: on battery"; empty if nothing keeps the job from training.
std::string PauseText(const v1::Pause& pause, absl::Time now);

// "on battery or in Low Power Mode, too hot"; empty if nothing keeps the job
// from training.
std::string PauseReasonText(const v1::Pause& pause);

// "aten::a 12 times, aten::b 1 time"; empty if no operator ran on the CPU.
std::string FallbackText(const v1::Progress& progress);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_HOST_TEXT_H_
