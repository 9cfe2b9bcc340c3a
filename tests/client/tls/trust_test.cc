// SPDX-License-Identifier: Apache-2.0
#include "client/tls/trust.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "core/certificates/pem.h"
#include "tests/client/certificates.h"

namespace mpsd::client {
namespace {

class TrustTest : public testing::Test {
 protected:
  TrustTest() {
    std::string name = testing::TempDir() + "trustXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~TrustTest() override { std::filesystem::remove_all(folder_); }

  static Chain Parse(const std::string& pem) {
    return certificates::ParseCertificates(pem).value();
  }
  static Trust Of(const std::string& pem, const std::string& roots,
                  const std::string& host, absl::Time now = absl::Now()) {
    const Verdict verdict = Judge(Parse(pem), roots, host, now);
    EXPECT_EQ(verdict.why.empty(), verdict.trust == Trust::kTrusted);
    return verdict.trust;
  }

  std::filesystem::path folder_;
};

TEST_F(TrustTest, ByAuthorityNameAndDate) {
  const TestAuthority authority(folder_ / "ca"), another(folder_ / "another");
  const Pair pair =
      authority.Issue("DNS:studio.local,DNS:*.example.com,IP:10.0.0.7,IP:::1");
  for (const std::string& chain :
       {pair.certificate, pair.certificate + authority.pem()}) {
    for (const char* host :
         {"studio.local", "STUDIO.local", "a.example.com", "10.0.0.7", "::1"}) {
      EXPECT_EQ(Of(chain, authority.pem(), host), Trust::kTrusted) << host;
    }
    for (const char* host : {"studio", "local", "b.a.example.com", "10.0.0.8",
                             "::2", "daemon", "example.com"}) {
      EXPECT_EQ(Of(chain, authority.pem(), host), Trust::kWrongName) << host;
    }
    EXPECT_EQ(Of(chain, another.pem(), "studio.local"), Trust::kOtherAuthority);
    EXPECT_EQ(Of(chain, another.pem() + authority.pem(), "studio.local"),
              Trust::kTrusted);
    const absl::Duration year = absl::Hours(24 * 365);
    EXPECT_EQ(Of(chain, authority.pem(), "studio.local", absl::Now() + year),
              Trust::kExpired);
    EXPECT_EQ(Of(chain, authority.pem(), "studio.local", absl::Now() - year),
              Trust::kNotYetValid);
  }
}

TEST_F(TrustTest, ASelfSignedCertificateCanBeItsOwnRoot) {
  OpenSsl(folder_,
          "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
          "-subj /CN=x -addext subjectAltName=DNS:studio -days 9 -out self.crt "
          "-keyout self.key");
  const std::string pem = TextOfFile(folder_ / "self.crt");
  EXPECT_EQ(Of(pem, pem, "studio"), Trust::kTrusted);
  EXPECT_EQ(Of(pem, pem, "attic"), Trust::kWrongName);
  EXPECT_EQ(Of(pem, TestAuthority(folder_ / "ca").pem(), "studio"),
            Trust::kOtherAuthority);
}

TEST_F(TrustTest, AnAuthorityOfTheSameNameIsAnother) {
  const TestAuthority authority(folder_ / "ca"), twin(folder_ / "twin");
  const Pair pair = authority.Issue("DNS:studio");
  EXPECT_EQ(Of(pair.certificate + twin.pem(), twin.pem(), "studio"),
            Trust::kOtherAuthority);
}

TEST_F(TrustTest, ACertificateForClientsIsNoServers) {
  const TestAuthority authority(folder_ / "ca");
  const Pair pair = authority.Issue("DNS:studio\nextendedKeyUsage=clientAuth");
  EXPECT_EQ(Of(pair.certificate, authority.pem(), "studio"), Trust::kBroken);
}

TEST_F(TrustTest, NothingToJudge) {
  EXPECT_EQ(Judge(Chain(), std::string("x"), "studio", absl::Now()).trust,
            Trust::kBroken);
  const TestAuthority authority(folder_ / "ca");
  EXPECT_EQ(Of(authority.pem(), "no PEM", "studio"), Trust::kBroken);
}

}  // namespace
}  // namespace mpsd::client
