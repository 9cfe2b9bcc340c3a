// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CERTIFICATES_CERTIFICATE_FACTS_H_
#define MPSD_CORE_CERTIFICATES_CERTIFICATE_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/certificates/openssl.h"

namespace mpsd::certificates {

// What people read of a certificate. The texts come out of a file that anybody
// may have written: they are printable, and no name holds a NUL.
struct CertificateFacts {
  std::string subject;             // the common name; empty: none, or several
  std::vector<std::string> names;  // DNS names and addresses, in their order
  absl::Time begin, expiry;
  std::string serial;       // hexadecimal digits
  std::string fingerprint;  // as base::Fingerprint spells it
};

// InvalidArgument for a certificate without readable dates.
absl::StatusOr<CertificateFacts> FactsOf(const X509& certificate);

// Whole days until `expiry`; negative once it has passed.
int64_t DaysLeft(absl::Time expiry, absl::Time now);

// Whether `authority` has signed `certificate`, whatever their dates.
bool IsIssuedBy(const X509& certificate, const X509& authority);

}  // namespace mpsd::certificates

#endif  // MPSD_CORE_CERTIFICATES_CERTIFICATE_FACTS_H_
