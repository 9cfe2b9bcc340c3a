// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/authority.h"

#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/certificate_facts.h"
#include "core/base/pem.h"
#include "server/rpc/host_names.h"

namespace mpsd::pki {
namespace {

using certificates::CertificateFacts;
using certificates::FactsOf;
using certificates::OpensslFault;

constexpr absl::Duration kDay = absl::Hours(24);
constexpr int kAuthorityDays = 3652;  // ten years
constexpr absl::Duration kBackdate = absl::Hours(1);
constexpr size_t kCommonNameBytes = 64;  // RFC 5280, ub-common-name

// 158 random bits in at most 20 bytes, as RFC 5280 allows: positive, and never
// 0.
bool SetSerial(X509* certificate) {
  unsigned char bytes[20];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] = (bytes[0] & 0x7f) | 0x40;
  const certificates::Number number(BN_bin2bn(bytes, sizeof(bytes), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) !=
             nullptr;
}

bool SetName(X509* certificate, const std::string& common_name) {
  return X509_NAME_add_entry_by_NID(
             X509_get_subject_name(certificate), NID_commonName, MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(common_name.data()),
             static_cast<int>(common_name.size()), -1, 0) == 1;
}

bool SetTimes(X509* certificate, absl::Time begin, absl::Time expiry) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate),
                       absl::ToTimeT(begin)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate),
                       absl::ToTimeT(expiry)) != nullptr;
}

// Adds an extension by OpenSSL's text for it, which is a constant.
bool Extend(X509* certificate, const X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, const_cast<X509*>(issuer), certificate, nullptr,
                 nullptr, 0);
  const certificates::Extension extension(
      X509V3_EXT_nconf_nid(nullptr, &context, nid, value));
  return extension != nullptr &&
         X509_add_ext(certificate, extension.get(), -1) == 1;
}

certificates::GeneralName NameOf(const std::string& name) {
  certificates::GeneralName general(GENERAL_NAME_new());
  if (general == nullptr) return nullptr;
  if (IsAddress(name)) {
    ASN1_OCTET_STRING* address = a2i_IPADDRESS(name.c_str());
    if (address == nullptr) return nullptr;
    GENERAL_NAME_set0_value(general.get(), GEN_IPADD, address);
    return general;
  }
  ASN1_IA5STRING* text = ASN1_IA5STRING_new();
  if (text == nullptr) return nullptr;
  GENERAL_NAME_set0_value(general.get(), GEN_DNS, text);
  const bool set =
      ASN1_STRING_set(text, name.data(), static_cast<int>(name.size())) == 1;
  return set ? std::move(general) : nullptr;
}

bool SetHostNames(X509* certificate, const std::vector<std::string>& names) {
  const certificates::GeneralNames all(GENERAL_NAMES_new());
  for (const std::string& name : names) {
    certificates::GeneralName general = NameOf(name);
    if (all == nullptr || general == nullptr ||
        sk_GENERAL_NAME_push(all.get(), general.get()) == 0) {
      return false;
    }
    static_cast<void>(general.release());
  }
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, all.get(),
                           /*crit=*/0, X509V3_ADD_DEFAULT) == 1;
}

// A certificate of version 3 with the fields that every kind has.
Certificate Blank(const EVP_PKEY& key, const std::string& subject,
                  absl::Time begin, absl::Time expiry) {
  Certificate made(X509_new());
  const bool filled =
      made != nullptr && X509_set_version(made.get(), X509_VERSION_3) == 1 &&
      SetSerial(made.get()) && SetName(made.get(), subject) &&
      SetTimes(made.get(), begin, expiry) &&
      X509_set_pubkey(made.get(), const_cast<EVP_PKEY*>(&key)) == 1;
  return filled ? std::move(made) : nullptr;
}

bool Sign(X509* certificate, const EVP_PKEY& key) {
  return X509_sign(certificate, const_cast<EVP_PKEY*>(&key), EVP_sha256()) > 0;
}

}  // namespace

absl::StatusOr<Authority> Authority::Make(const std::string& machine,
                                          absl::Time now) {
  ASSIGN_OR_RETURN(Key key, certificates::MakeKey());
  const std::string name =
      absl::StrCat("mpsd CA of ", machine).substr(0, kCommonNameBytes);
  Certificate made =
      Blank(*key, name, now - kBackdate, now + kAuthorityDays * kDay);
  const bool signed_by_itself =
      made != nullptr &&
      X509_set_issuer_name(made.get(), X509_get_subject_name(made.get())) ==
          1 &&
      Extend(made.get(), made.get(), NID_basic_constraints,
             "critical,CA:TRUE,pathlen:0") &&
      Extend(made.get(), made.get(), NID_key_usage, "critical,keyCertSign") &&
      Extend(made.get(), made.get(), NID_subject_key_identifier, "hash") &&
      Sign(made.get(), *key);
  if (!signed_by_itself) return OpensslFault("make a certificate authority");
  return Authority(std::move(made), std::move(key));
}

absl::StatusOr<Authority> Authority::Load(const std::string& certificate_pem,
                                          const std::string& key_pem) {
  ASSIGN_OR_RETURN(std::vector<Certificate> certificates,
                   certificates::ParseCertificates(certificate_pem));
  ASSIGN_OR_RETURN(Key key, certificates::ParseKey(key_pem));
  Certificate& certificate = certificates.front();
  const bool own = X509_check_private_key(certificate.get(), key.get()) == 1;
  const bool authority = X509_check_ca(certificate.get()) == 1;
  ERR_clear_error();
  if (!authority) {
    return absl::InvalidArgumentError(
        "the certificate is not a certificate authority's");
  }
  if (!own) {
    return absl::InvalidArgumentError(
        "the key is not the certificate authority's");
  }
  return Authority(std::move(certificate), std::move(key));
}

absl::StatusOr<Certificate> Authority::IssueServer(
    const EVP_PKEY& key, const std::vector<std::string>& names, int days,
    absl::Time now) const {
  ASSIGN_OR_RETURN(const CertificateFacts own, FactsOf(*certificate_));
  if (own.expiry <= now) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the certificate authority expired on ",
        absl::FormatTime("%Y-%m-%d", own.expiry, absl::UTCTimeZone())));
  }
  const bool fits = !names.empty() && names[0].size() <= kCommonNameBytes;
  Certificate made = Blank(key, fits ? names[0] : "mpsd", now - kBackdate,
                           std::min(now + days * kDay, own.expiry));
  const bool filled =
      made != nullptr &&
      X509_set_issuer_name(made.get(),
                           X509_get_subject_name(certificate_.get())) == 1 &&
      Extend(made.get(), made.get(), NID_basic_constraints,
             "critical,CA:FALSE") &&
      Extend(made.get(), made.get(), NID_key_usage,
             "critical,digitalSignature") &&
      Extend(made.get(), made.get(), NID_ext_key_usage, "serverAuth") &&
      Extend(made.get(), made.get(), NID_subject_key_identifier, "hash") &&
      Extend(made.get(), certificate_.get(), NID_authority_key_identifier,
             "keyid:always") &&
      SetHostNames(made.get(), names) && Sign(made.get(), *key_);
  if (!filled) return OpensslFault("make a server's certificate");
  return made;
}

}  // namespace mpsd::pki
