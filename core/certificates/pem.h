// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CERTIFICATES_PEM_H_
#define MPSD_CORE_CERTIFICATES_PEM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/certificates/openssl.h"

// Keys and certificates, and their texts in PEM.
namespace mpsd::certificates {

// Internal, with OpenSSL's own reason, for what can fail for want of memory or
// of random numbers alone: "cannot <what>: <reason>". Clears OpenSSL's errors.
absl::Status OpensslFault(const std::string& what);

// A new key on the curve P-256.
absl::StatusOr<Key> MakeKey();

absl::StatusOr<std::string> KeyPem(const EVP_PKEY& key);
absl::StatusOr<std::string> CertificatePem(const X509& certificate);

// InvalidArgument for a text that is no key in PEM, or has a passphrase.
absl::StatusOr<Key> ParseKey(const std::string& pem);
// All certificates of the text, at least one. InvalidArgument otherwise.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(
    const std::string& pem);

}  // namespace mpsd::certificates

#endif  // MPSD_CORE_CERTIFICATES_PEM_H_
