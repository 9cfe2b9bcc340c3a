// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_PEM_H_
#define MPSD_CORE_BASE_PEM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/openssl.h"

// Keys and certificates, and their PEM text.
namespace mpsd::certificates {

// Internal, for calls that fail only for lack of memory or of random numbers:
// "cannot <what>: <OpenSSL's reason>". Clears OpenSSL's error queue.
absl::Status OpensslFault(const std::string& what);

// A new P-256 key.
absl::StatusOr<Key> MakeKey();

absl::StatusOr<std::string> KeyPem(const EVP_PKEY& key);
absl::StatusOr<std::string> CertificatePem(const X509& certificate);

// InvalidArgument if the text is not a PEM key or has a passphrase.
absl::StatusOr<Key> ParseKey(const std::string& pem);
// All certificates in the text. InvalidArgument if there is none.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(
    const std::string& pem);

}  // namespace mpsd::certificates

#endif  // MPSD_CORE_BASE_PEM_H_
