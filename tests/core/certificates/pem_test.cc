// SPDX-License-Identifier: Apache-2.0
#include "core/certificates/pem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include "core/base/limits.h"
#include "tests/core/certificates/made.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::certificates {
namespace {

using testing::HasSubstr;

TEST(PemTest, AKeyComesBack) {
  const auto key = MakeKey();
  ASSERT_TRUE(key.ok()) << key.status();
  const auto pem = KeyPem(**key);
  ASSERT_TRUE(pem.ok()) << pem.status();
  EXPECT_THAT(*pem, HasSubstr("BEGIN PRIVATE KEY"));
  const auto parsed = ParseKey(*pem);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(EVP_PKEY_eq(key->get(), parsed->get()), 1);
}

TEST(PemTest, CertificatesComeBackInTheirOrder) {
  const auto folder = testing_support::FreshFolder("pem");
  const std::string first = SelfSigned(folder, "-subj /CN=first");
  const std::string second = SelfSigned(folder, "-subj /CN=second");
  const auto parsed = ParseCertificates(first + "text between\n" + second);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ(*CertificatePem(*(*parsed)[0]), first);
  EXPECT_EQ(*CertificatePem(*(*parsed)[1]), second);
}

TEST(PemTest, AKeyWithAPassphraseIsRefusedWithoutAsking) {
  const auto file = testing_support::FreshFolder("pem") / "key";
  Said(
      "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 "
      "-pass pass:secret -out '" +
      file.string() + "'");
  ASSERT_THAT(ReadText(file), HasSubstr("ENCRYPTED"));
  EXPECT_THAT(std::string(ParseKey(ReadText(file)).status().message()),
              HasSubstr("without a passphrase"));
}

TEST(PemTest, WhatIsNoPemIsRefused) {
  const std::string pem =
      SelfSigned(testing_support::FreshFolder("pem"), "-subj /CN=studio");
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
  EXPECT_TRUE(absl::IsInternal(fault));
  EXPECT_THAT(std::string(fault.message()),
              HasSubstr("cannot make a key: malloc failure"));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

}  // namespace
}  // namespace mpsd::certificates
