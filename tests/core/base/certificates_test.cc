// SPDX-License-Identifier: Apache-2.0
#include "core/base/certificates.h"

#include <openssl/err.h>

#include "core/base/limits.h"
#include "core/base/text.h"
#include "tests/core/base/made.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::certificates {
namespace {

// A certificate whose subject has these common names, as bytes of UTF8String.
Certificate Named(const std::vector<std::string>& names) {
  Certificate made(X509_new());
  ASN1_TIME_set(X509_getm_notBefore(made.get()), 0);
  ASN1_TIME_set(X509_getm_notAfter(made.get()), 1);
  for (const std::string& name : names) {
    X509_NAME_add_entry_by_NID(
        X509_get_subject_name(made.get()), NID_commonName, V_ASN1_UTF8STRING,
        reinterpret_cast<const unsigned char*>(name.data()),
        static_cast<int>(name.size()), -1, 0);
  }
  return made;
}

TEST(CertificateFactsTest, AgreesWithOpenssl) {
  const auto folder = FreshFolder("facts");
  const std::string pem =
      SelfSigned(folder,
                 "-subj /CN=studio.local -days 30 -addext subjectAltName="
                 "DNS:studio.local,IP:192.168.1.20,email:a@b.c,IP:2001:db8::1");
  const auto parsed = ParseCertificates(pem).value();
  const auto facts = FactsOf(*parsed.front()).value();
  const std::string said = Said(
      "openssl x509 -noout -fingerprint -sha256 -serial -subject -dateopt "
      "iso_8601 -dates -in '" +
      (folder / "made.crt").string() + "'");
  const auto date = [](absl::Time time) {
    return absl::FormatTime("=%Y-%m-%d %H:%M:%SZ\n", time, absl::UTCTimeZone());
  };
  EXPECT_THAT(said, HasSubstr("=" + facts.fingerprint.substr(7) + "\n"));
  EXPECT_THAT(said, HasSubstr("serial=" + facts.serial + "\n"));
  EXPECT_THAT(said, HasSubstr("notBefore" + date(facts.begin)));
  EXPECT_THAT(said, HasSubstr("notAfter" + date(facts.expiry)));
  EXPECT_EQ(facts.subject, "studio.local");
  EXPECT_THAT(facts.names,
              ElementsAre("studio.local", "192.168.1.20", "2001:db8::1"));
}

TEST(CertificateFactsTest, HostileSubjectsStayPrintable) {
  for (const std::string& name :
       {std::string("ann\0.evil", 9), std::string("\x1b]0;evil\a"),
        std::string("\xff\xfe"), std::string(64 << 10, 'a'),
        std::string("\xe2\x80\xae"
                    "evil")}) {
    const auto facts = FactsOf(*Named({name})).value();
    EXPECT_TRUE(base::IsPrintable(facts.subject)) << facts.subject;
    EXPECT_NE(facts.subject, "ann");
  }
  EXPECT_EQ(FactsOf(*Named({"ann"}))->subject, "ann");
  EXPECT_EQ(FactsOf(*Named({"ann", "bob"}))->subject, "");
  EXPECT_EQ(FactsOf(*Named({}))->subject, "");
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST(CertificateFactsTest, DaysLeftAreWholeOnes) {
  const absl::Duration day = absl::Hours(24);
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  EXPECT_EQ(DaysLeft(now + 30 * day, now), 30);
  EXPECT_EQ(DaysLeft(now + 30 * day - absl::Seconds(1), now), 29);
  EXPECT_EQ(DaysLeft(now, now), 0);
  EXPECT_EQ(DaysLeft(now - absl::Seconds(1), now), -1);
}

TEST(CertificateFactsTest, OnlyItsOwnAuthorityHasIssuedACertificate) {
  const auto folder = FreshFolder("issued");
  const std::string text = SelfSigned(folder, "-subj /CN=studio");
  const auto authority = ParseCertificates(text);
  const std::string of_folder = "cd '" + folder.string() + "'; ";
  const std::string issue =
      "openssl req -newkey rsa:2048 -nodes -keyout leaf.key -subj /CN=ann | "
      "openssl x509 -req -CA made.crt -CAkey made.key -days 1 -out leaf.crt";
  Said(of_folder + issue);
  const auto leaf = ParseCertificates(ReadText(folder / "leaf.crt")).value();
  // Of the same name, with another key.
  const auto other = ParseCertificates(SelfSigned(folder, "-subj /CN=studio"));
  EXPECT_TRUE(IsIssuedBy(*leaf.front(), *authority->front()));
  EXPECT_FALSE(IsIssuedBy(*leaf.front(), *other->front()));
  EXPECT_FALSE(IsIssuedBy(*leaf.front(), *leaf.front()));
  EXPECT_TRUE(IsIssuedBy(*authority->front(), *authority->front()));
}

TEST(PemTest, AKeyComesBack) {
  const auto key = MakeKey().value();
  const auto pem = KeyPem(*key).value();
  EXPECT_THAT(pem, HasSubstr("BEGIN PRIVATE KEY"));
  const auto parsed = ParseKey(pem).value();
  EXPECT_EQ(EVP_PKEY_eq(key.get(), parsed.get()), 1);
  const auto file = FreshFolder("pem") / "key";
  Said(
      "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 "
      "-pass pass:secret -out '" +
      file.string() + "'");
  ASSERT_THAT(ReadText(file), HasSubstr("ENCRYPTED"));
  EXPECT_THAT(ParseKey(ReadText(file)), Says("without a passphrase"));
}

TEST(PemTest, CertificatesComeBackInTheirOrder) {
  const auto folder = FreshFolder("pem");
  const std::string first = SelfSigned(folder, "-subj /CN=first");
  const std::string second = SelfSigned(folder, "-subj /CN=second");
  const auto parsed = *ParseCertificates(first + "text between\n" + second);
  ASSERT_EQ(parsed.size(), 2u);
  EXPECT_EQ(*CertificatePem(*parsed[0]), first);
  EXPECT_EQ(*CertificatePem(*parsed[1]), second);
}

TEST(PemTest, WhatIsNoPemIsRefused) {
  const std::string pem = SelfSigned(FreshFolder("pem"), "-subj /CN=studio");
  for (const std::string& text :
       {std::string(), std::string("no certificate"),
        std::string(limits::kPemBytes, '-'), std::string(100, '\0'),
        pem.substr(0, pem.size() / 2), pem + pem.substr(0, pem.size() / 2)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseCertificates(text).status()))
        << text.substr(0, 40);
    EXPECT_TRUE(absl::IsInvalidArgument(ParseKey(text).status()));
  }
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST(PemTest, AFaultNamesOpensslsReasonAndClearsIt) {
  ERR_raise(ERR_LIB_PEM, ERR_R_MALLOC_FAILURE);
  const absl::Status fault = OpensslFault("make a key");
  EXPECT_TRUE(absl::IsInternal(fault)) << fault;
  EXPECT_THAT(fault, Says("cannot make a key: malloc failure"));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

}  // namespace
}  // namespace mpsd::certificates
