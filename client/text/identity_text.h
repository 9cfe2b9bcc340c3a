// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_IDENTITY_TEXT_H_
#define MPSD_CLIENT_TEXT_IDENTITY_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"

// Describes who somebody is at a daemon.
namespace mpsd::client {

std::string RoleName(v1::Role role);  // "admin"

// "ann, user, by token 0a1b2c3d4e5f until 2026-12-01 (89 days)".
std::string IdentityText(const v1::WhoAmIResponse& who, absl::Time now);

// "until 2026-12-01 (89 days)"; with what to do where it is about to expire, or
// has expired.
std::string CertificateText(absl::Time expiry, absl::Time now);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_IDENTITY_TEXT_H_
