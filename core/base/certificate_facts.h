// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_CERTIFICATE_FACTS_H_
#define MPSD_CORE_BASE_CERTIFICATE_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/openssl.h"

namespace mpsd::certificates {

// Human-readable facts of a certificate. The file may come from anyone: all
// texts are printable, and no name contains a NUL.
struct CertificateFacts {
  std::string subject;             // the common name; empty: none, or several
  std::vector<std::string> names;  // DNS names and addresses, in file order
  absl::Time begin, expiry;
  std::string serial;       // hexadecimal digits
  std::string fingerprint;  // as base::Fingerprint formats it
};

// InvalidArgument for a certificate without readable dates.
absl::StatusOr<CertificateFacts> FactsOf(const X509& certificate);

// Whole days until `expiry`; negative once it has passed.
int64_t DaysLeft(absl::Time expiry, absl::Time now);

// Whether `authority` signed `certificate`; dates are not checked.
bool IsIssuedBy(const X509& certificate, const X509& authority);

}  // namespace mpsd::certificates

#endif  // MPSD_CORE_BASE_CERTIFICATE_FACTS_H_
