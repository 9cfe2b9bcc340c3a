// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_AUTHORITY_H_
#define MPSD_SERVER_RPC_AUTHORITY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/openssl.h"

namespace mpsd::pki {

using certificates::Certificate;
using certificates::Key;

// Apple's rules refuse a server's certificate of more than 398 days.
inline constexpr int kServerDays = 397;

// A certificate authority of one machine. Its certificate only signs others,
// and no other authority. All certificates that it issues have keys on the
// curve P-256, a serial number of 158 random bits, and begin an hour ago, since
// other machines' clocks differ.
class Authority {
 public:
  // A new one, for ten years. `machine` is part of its name.
  static absl::StatusOr<Authority> Make(const std::string& machine,
                                        absl::Time now);
  // InvalidArgument if a text is not PEM, the certificate is not an
  // authority's, or the key does not match.
  static absl::StatusOr<Authority> Load(const std::string& certificate_pem,
                                        const std::string& key_pem);

  const X509& certificate() const { return *certificate_; }
  const EVP_PKEY& key() const { return *key_; }

  // A certificate for a server of these names (ParseHostName; at least one),
  // for `days` days, or until the authority's own ends. FailedPrecondition if
  // that has passed.
  absl::StatusOr<Certificate> IssueServer(const EVP_PKEY& key,
                                          const std::vector<std::string>& names,
                                          int days, absl::Time now) const;

 private:
  Authority(Certificate certificate, Key key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  Certificate certificate_;
  Key key_;
};

}  // namespace mpsd::pki

#endif  // MPSD_SERVER_RPC_AUTHORITY_H_
