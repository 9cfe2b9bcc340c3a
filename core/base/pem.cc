// SPDX-License-Identifier: Apache-2.0
#include "core/base/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mpsd::certificates {
namespace {

Bio Reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string Written(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return std::string(bytes, size);
}

}  // namespace

absl::Status OpensslFault(const std::string& what) {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(
      "cannot ", what, ": ", reason != nullptr ? reason : "OpenSSL failed"));
}

absl::StatusOr<Key> MakeKey() {
  Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpensslFault("make a key");
  return key;
}

absl::StatusOr<std::string> KeyPem(const EVP_PKEY& key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), const_cast<EVP_PKEY*>(&key), nullptr,
                               nullptr, 0, nullptr, nullptr) != 1) {
    return OpensslFault("write a key");
  }
  return Written(bio.get());
}

absl::StatusOr<std::string> CertificatePem(const X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr ||
      PEM_write_bio_X509(bio.get(), const_cast<X509*>(&certificate)) != 1) {
    return OpensslFault("write a certificate");
  }
  return Written(bio.get());
}

absl::StatusOr<Key> ParseKey(const std::string& pem) {
  const Bio bio = Reader(pem);
  // Without a passphrase argument OpenSSL would ask the terminal for one.
  static char no_passphrase[] = "";
  Key key(bio == nullptr ? nullptr
                         : PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr,
                                                   no_passphrase));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        "expected a key in PEM format, without a passphrase");
  }
  return key;
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(
    const std::string& pem) {
  std::vector<Certificate> certificates;
  const Bio bio = Reader(pem);
  while (bio != nullptr) {
    Certificate certificate(
        PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    certificates.push_back(std::move(certificate));
  }
  const bool at_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty() || !at_end) {
    return absl::InvalidArgumentError("expected certificates in PEM format");
  }
  return certificates;
}

}  // namespace mpsd::certificates
