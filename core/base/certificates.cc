// SPDX-License-Identifier: Apache-2.0
#include "core/base/certificates.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <cmath>
#include <ctime>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "core/base/text.h"

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

namespace {

std::string Bytes(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     ASN1_STRING_length(text));
}

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InvalidArgumentError("the certificate has no readable dates");
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string CommonName(const X509& certificate) {
  const X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(const_cast<X509_NAME*>(subject),
                                            NID_commonName, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(const_cast<X509_NAME*>(subject),
                                           NID_commonName, at) >= 0) {
    return "";
  }
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(
      &utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  if (size < 0) return "";
  const std::string name(reinterpret_cast<char*>(utf8), size);
  OPENSSL_free(utf8);
  return base::Printable(name);
}

// An IP address of a certificate; empty for an invalid length.
std::string Address(const std::string& bytes) {
  char text[INET6_ADDRSTRLEN];
  const int family = bytes.size() == sizeof(in_addr)    ? AF_INET
                     : bytes.size() == sizeof(in6_addr) ? AF_INET6
                                                        : AF_UNSPEC;
  if (family == AF_UNSPEC ||
      inet_ntop(family, bytes.data(), text, sizeof(text)) == nullptr) {
    return "";
  }
  return text;
}

std::vector<std::string> NamesOf(const X509& certificate) {
  std::vector<std::string> names;
  const GeneralNames all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(name, &type);
    std::string text;
    if (type == GEN_DNS) {
      text = base::Printable(Bytes(static_cast<const ASN1_IA5STRING*>(value)));
    } else if (type == GEN_IPADD) {
      text = Address(Bytes(static_cast<const ASN1_OCTET_STRING*>(value)));
    }
    if (!text.empty()) names.push_back(text);
  }
  return names;
}

std::string SerialOf(const X509& certificate) {
  const Number number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr));
  char* digits = number != nullptr ? BN_bn2hex(number.get()) : nullptr;
  const std::string text = digits != nullptr ? digits : "";
  OPENSSL_free(digits);
  return text;
}

std::string FingerprintOf(const X509& certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(const_cast<X509*>(&certificate), &der);
  if (size < 0) return "";
  const std::string fingerprint = base::Fingerprint(
      {reinterpret_cast<char*>(der), static_cast<size_t>(size)});
  OPENSSL_free(der);
  return fingerprint;
}

}  // namespace

absl::StatusOr<CertificateFacts> FactsOf(const X509& certificate) {
  const absl::StatusOr<absl::Time> begin =
      TimeOf(X509_get0_notBefore(&certificate));
  const absl::StatusOr<absl::Time> expiry =
      TimeOf(X509_get0_notAfter(&certificate));
  if (!begin.ok()) return begin.status();
  if (!expiry.ok()) return expiry.status();
  CertificateFacts facts{
      CommonName(certificate), NamesOf(certificate),      *begin, *expiry,
      SerialOf(certificate),   FingerprintOf(certificate)};
  ERR_clear_error();
  return facts;
}

int64_t DaysLeft(absl::Time expiry, absl::Time now) {
  return static_cast<int64_t>(
      std::floor(absl::FDivDuration(expiry - now, absl::Hours(24))));
}

bool IsIssuedBy(const X509& certificate, const X509& authority) {
  const bool issued =
      X509_check_issued(const_cast<X509*>(&authority),
                        const_cast<X509*>(&certificate)) == X509_V_OK &&
      X509_verify(const_cast<X509*>(&certificate),
                  X509_get0_pubkey(&authority)) == 1;
  ERR_clear_error();
  return issued;
}

}  // namespace mpsd::certificates
