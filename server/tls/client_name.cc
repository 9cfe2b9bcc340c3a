// SPDX-License-Identifier: Apache-2.0
#include "server/tls/client_name.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/certificates/certificate_facts.h"
#include "core/certificates/pem.h"
#include "server/access/caller.h"

namespace mpsd::tls {
namespace {

constexpr size_t kSerialDigits = 40;  // 20 bytes: RFC 5280, 4.1.2.2

absl::Status Fault(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the client certificate ", what));
}

}  // namespace

absl::StatusOr<ClientName> ReadClientName(const std::string& pem) {
  if (pem.size() > limits::kPemBytes) return Fault("is too long");
  const absl::StatusOr<std::vector<certificates::Certificate>> certificates =
      certificates::ParseCertificates(pem);
  if (!certificates.ok() || certificates->size() != 1) {
    return Fault("cannot be read");
  }
  const absl::StatusOr<certificates::CertificateFacts> facts =
      certificates::FactsOf(*certificates->front());
  if (!facts.ok()) return facts.status();
  if (facts->subject.empty()) {
    return Fault("does not have exactly one common name (CN), the user's");
  }
  if (!access::IsUserName(facts->subject)) {
    return Fault(
        "has a common name (CN) that no user may have: expected 1 to 64 "
        "letters, digits and \"._@+-\"");
  }
  if (facts->serial.empty() || facts->serial.size() > kSerialDigits) {
    return Fault("does not have a serial number of 1 to 20 bytes");
  }
  return ClientName{facts->subject, facts->serial, facts->expiry};
}

}  // namespace mpsd::tls
