// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// OpenSSL's objects with owning pointers.

// Keys and certificates, and their PEM text.

namespace mpsd::certificates {

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};

using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Number = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using GeneralName = std::unique_ptr<GENERAL_NAME, Freed<GENERAL_NAME_free>>;
using GeneralNames = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

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
