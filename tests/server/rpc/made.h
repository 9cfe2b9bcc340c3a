// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_MADE_H_
#define MPSD_TESTS_SERVER_RPC_MADE_H_

#include <gtest/gtest.h>

#include <string>

#include "core/base/certificates.h"
#include "server/rpc/pki.h"
#include "tests/core/base/made.h"

// What the tests of certificates share.
namespace mpsd::pki {

using certificates::DaysLeft;
using certificates::FactsOf;
using certificates::KeyPem;
using certificates::MakeKey;
using certificates::ParseCertificates;
using certificates::ReadText;
using certificates::Said;
using certificates::WriteText;

inline absl::Time Noon() { return absl::FromUnixSeconds(1'800'000'000); }

inline Authority MadeAuthority(absl::Time now) {
  absl::StatusOr<Authority> authority = Authority::Make("studio", now);
  EXPECT_TRUE(authority.ok()) << authority.status();
  return *std::move(authority);
}

inline std::string PemOf(const X509& certificate) {
  const absl::StatusOr<std::string> pem =
      certificates::CertificatePem(certificate);
  EXPECT_TRUE(pem.ok()) << pem.status();
  return *pem;
}

}  // namespace mpsd::pki

#endif  // MPSD_TESTS_SERVER_RPC_MADE_H_
