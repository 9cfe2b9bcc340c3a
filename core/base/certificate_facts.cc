// SPDX-License-Identifier: Apache-2.0
#include "core/base/certificate_facts.h"

#include <arpa/inet.h>
#include <openssl/err.h>

#include <cmath>
#include <ctime>

#include "absl/status/status.h"
#include "core/base/fingerprint.h"
#include "core/base/printable.h"

namespace mpsd::certificates {
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
