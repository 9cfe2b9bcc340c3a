// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pki.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/certificates.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/made.h"

namespace mpsd::pki {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr absl::Duration kDay = absl::Hours(24);

class AuthorityTest : public testing::Test {
 protected:
  AuthorityTest() {
    WriteText(folder_ / "ca", PemOf(authority_.certificate()));
  }

  // What openssl says of a certificate, as strictly as it can.
  std::string Verified(const X509& certificate, const std::string& options) {
    WriteText(folder_ / "crt", PemOf(certificate));
    return Said(
        "openssl verify -x509_strict -check_ss_sig -attime 1800000000 "
        "-CAfile '" +
        (folder_ / "ca").string() + "' " + options + " '" +
        (folder_ / "crt").string() + "'");
  }
  std::string Text(const X509& certificate) {
    WriteText(folder_ / "crt", PemOf(certificate));
    return Said("openssl x509 -noout -text -in '" + (folder_ / "crt").string() +
                "'");
  }

  const fs::path folder_ = testing_support::FreshFolder("authority");
  const Authority authority_ = MadeAuthority(Noon());
  const Key key_ = *MakeKey();
};

TEST_F(AuthorityTest, SignsCertificatesAndNothingElse) {
  const std::string text = Text(authority_.certificate());
  EXPECT_THAT(text, HasSubstr("CA:TRUE, pathlen:0"));
  EXPECT_THAT(text, testing::ContainsRegex(
                        "Key Usage: critical\n *Certificate Sign\n"));
  EXPECT_THAT(text, HasSubstr("NIST CURVE: P-256"));
  EXPECT_THAT(text, HasSubstr("ecdsa-with-SHA256"));
  EXPECT_THAT(text,
              testing::ContainsRegex("Subject: CN ?= ?mpsd CA of studio\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("Name Constraints")));
  EXPECT_THAT(Verified(authority_.certificate(), ""), HasSubstr(": OK"));
  const auto facts = FactsOf(authority_.certificate());
  EXPECT_EQ(facts->expiry - facts->begin, 3652 * kDay + absl::Hours(1));
}

TEST_F(AuthorityTest, AServersCertificateServesItsNamesAlone) {
  const auto made = authority_.IssueServer(
      *key_, {"studio.local", "192.168.1.20", "::1"}, kServerDays, Noon());
  ASSERT_TRUE(made.ok()) << made.status();
  for (const char* name :
       {"-verify_hostname studio.local", "-verify_hostname STUDIO.local",
        "-verify_ip 192.168.1.20", "-verify_ip ::1"}) {
    EXPECT_THAT(Verified(**made, std::string("-purpose sslserver ") + name),
                HasSubstr(": OK"))
        << name;
  }
  for (const char* name :
       {"-verify_hostname studio", "-verify_hostname a.studio.local",
        "-verify_hostname 192.168.1.20", "-verify_ip 192.168.1.21"}) {
    EXPECT_THAT(Verified(**made, std::string("-purpose sslserver ") + name),
                HasSubstr("mismatch"))
        << name;
  }
  EXPECT_THAT(Verified(**made, "-purpose sslclient"),
              HasSubstr("unsuitable certificate purpose"));
  EXPECT_THAT(Text(**made), HasSubstr("CA:FALSE"));
}

TEST_F(AuthorityTest, OthersCertificatesAreNotItsOwn) {
  const Authority other = MadeAuthority(Noon());
  const auto made = other.IssueServer(*key_, {"studio.local"}, 1, Noon());
  EXPECT_THAT(Verified(**made, ""), HasSubstr("error"));
}

TEST_F(AuthorityTest, NamesOfAnyLengthFitASubject) {
  const std::string name = std::string(63, 'a') + "." + std::string(63, 'b');
  const auto made = authority_.IssueServer(*key_, {name}, 1, Noon());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(Verified(**made, "-verify_hostname " + name), HasSubstr(": OK"));
  const auto authority = Authority::Make(name, Noon());
  ASSERT_TRUE(authority.ok()) << authority.status();
  EXPECT_EQ(FactsOf(authority->certificate())->subject.size(), 64u);
}

TEST_F(AuthorityTest, ComesBackFromItsFiles) {
  const auto pem = KeyPem(authority_.key());
  const auto loaded = Authority::Load(PemOf(authority_.certificate()), *pem);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto made = loaded->IssueServer(*key_, {"studio"}, 1, Noon());
  EXPECT_THAT(Verified(**made, "-purpose sslserver"), HasSubstr(": OK"));
}

TEST_F(AuthorityTest, AnothersKeyIsRefused) {
  const auto pem = KeyPem(*key_);
  const auto loaded = Authority::Load(PemOf(authority_.certificate()), *pem);
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr("key is not the certificate authority's"));
  // A certificate that it issued signs nothing.
  const auto made = authority_.IssueServer(*key_, {"studio"}, 1, Noon());
  EXPECT_THAT(
      std::string(Authority::Load(PemOf(**made), *pem).status().message()),
      HasSubstr("not a certificate authority's"));
  EXPECT_FALSE(Authority::Load("", *pem).ok());
  EXPECT_FALSE(Authority::Load(PemOf(authority_.certificate()), "").ok());
}

TEST_F(AuthorityTest, NothingOutlivesIt) {
  const absl::Time end = FactsOf(authority_.certificate())->expiry;
  const auto made =
      authority_.IssueServer(*key_, {"studio"}, 90, end - 30 * kDay);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(FactsOf(**made)->expiry, end);
  const auto late = authority_.IssueServer(*key_, {"studio"}, 90, end);
  EXPECT_TRUE(absl::IsFailedPrecondition(late.status()));
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("expired on"));
  // Dates beyond 2049 are written right.
  const absl::Time future = Noon() + 40 * 365 * kDay;
  const Authority authority = MadeAuthority(future);
  EXPECT_EQ(FactsOf(authority.certificate())->begin, future - absl::Hours(1));
}

TEST_F(AuthorityTest, SerialNumbersDiffer) {
  std::set<std::string> serials;
  for (int i = 0; i < 200; ++i) {
    const auto made = authority_.IssueServer(*key_, {"studio"}, 1, Noon());
    const std::string serial = FactsOf(**made)->serial;
    EXPECT_EQ(serial.size(), 40u);
    EXPECT_LT(serial[0], '8');
    serials.insert(serial);
  }
  EXPECT_EQ(serials.size(), 200u);
}

}  // namespace
}  // namespace mpsd::pki
