// SPDX-License-Identifier: Apache-2.0
#include "server/tls/client_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "core/certificates/openssl.h"
#include "core/certificates/pem.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/tls/test_pki.h"

namespace mpsd::tls {
namespace {

using testing::HasSubstr;

class ClientNameTest : public testing::Test {
 protected:
  std::string Fault(const std::string& subject) {
    const std::string pem = Content(pki_.Client("c", subject).certificate);
    return std::string(ReadClientName(pem).status().message());
  }
  const TestPki pki_{testing_support::FreshFolder("client")};
};

TEST_F(ClientNameTest, ReadsTheCommonName) {
  const auto name = ReadClientName(
      Content(pki_.Client("ada", "/O=Team/CN=ada@example.org").certificate));
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(name->user, "ada@example.org");
  EXPECT_THAT(name->serial, testing::MatchesRegex("[0-9A-F]{2,40}"));
  EXPECT_NEAR(absl::ToDoubleHours(name->expiry - absl::Now()), 30 * 24, 1);
}

TEST_F(ClientNameTest, NamesThatAreNobodysAreRefused) {
  EXPECT_THAT(Fault("/O=Team"), HasSubstr("exactly one common name"));
  EXPECT_THAT(Fault("/CN=ada/CN=root"), HasSubstr("exactly one common name"));
  EXPECT_THAT(Fault("/CN=ada/O=x/CN=ada"),
              HasSubstr("exactly one common name"));
  EXPECT_THAT(Fault("/CN=Ada Lovelace"), HasSubstr("that no user may have"));
  EXPECT_THAT(Fault("/CN=\xd0\xb0"
                    "da"),
              HasSubstr("that no user may have"));
  EXPECT_THAT(Fault("/CN=" + std::string(64, 'a')), "");
}

// Compared as text that ends at the NUL, the name would be root's.
TEST_F(ClientNameTest, ANulEndsNoName) {
  const certificates::Certificate certificate(X509_new());
  const certificates::Key key = *certificates::MakeKey();
  const unsigned char kName[] = "root\0.example.org";
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  ASSERT_EQ(
      X509_NAME_add_entry_by_NID(subject, NID_commonName, V_ASN1_UTF8STRING,
                                 kName, sizeof(kName) - 1, -1, 0),
      1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  const auto name = ReadClientName(*certificates::CertificatePem(*certificate));
  EXPECT_THAT(std::string(name.status().message()),
              HasSubstr("that no user may have"));
}

TEST_F(ClientNameTest, WhatIsNoCertificateIsRefused) {
  for (const std::string text :
       {"", "ada", "-----BEGIN CERTIFICATE-----\nA\n"}) {
    EXPECT_FALSE(ReadClientName(text).ok()) << text;
  }
}

}  // namespace
}  // namespace mpsd::tls
