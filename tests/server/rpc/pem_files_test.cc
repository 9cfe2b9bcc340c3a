// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/limits.h"
#include "server/rpc/pki.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/test_pki.h"

namespace mpsd::tls {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class PemFilesTest : public testing::Test {
 protected:
  std::string Fault() const {
    const absl::Status status = ReadServerPem(files_).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  const fs::path folder_ = testing_support::FreshFolder("pem");
  const TestPki pki_{folder_};
  const ServerFiles files_ = pki_.Server();
};

TEST_F(PemFilesTest, KeepsTheChainAndNothingElse) {
  const std::string leaf = Content(files_.certificate);
  const std::string authority = Content(pki_.authority());
  std::ofstream(files_.certificate) << "human-readable: the Mac's\n"
                                    << leaf << "and its authority\n"
                                    << authority;
  const auto pem = ReadServerPem(files_);
  ASSERT_TRUE(pem.ok()) << pem.status();
  EXPECT_EQ(pem->chain, leaf + authority);
}

TEST_F(PemFilesTest, AKeyWithAPassphraseIsRefusedWithoutAsking) {
  pki_.Run("ec -in server.key -aes256 -passout pass:secret -out server.key");
  EXPECT_THAT(Fault(), HasSubstr("without a passphrase"));
}

TEST_F(PemFilesTest, WhatIsNoPemIsRefused) {
  std::ofstream(files_.certificate) << "no certificate";
  EXPECT_THAT(Fault(), HasSubstr("expected certificates in PEM format"));
  std::ofstream(files_.certificate) << std::string(limits::kPemBytes + 1, '-');
  EXPECT_THAT(Fault(), HasSubstr("longer than"));
  fs::remove(files_.certificate);
  EXPECT_THAT(Fault(), HasSubstr(files_.certificate.string()));
  // Errors quote no byte of a key.
  const std::string key = Content(files_.key);
  std::ofstream(files_.certificate) << key;
  EXPECT_THAT(Fault(), Not(HasSubstr(key.substr(40, 16))));
}

// gRPC would take such a key, and refuse every connection.
TEST_F(PemFilesTest, AKeyThatOpensslHoldsForTooWeakIsRefused) {
  pki_.Run(
      "req -x509 -newkey rsa:512 -nodes -subj /CN=localhost -keyout server.key "
      "-out server.crt");
  EXPECT_THAT(Fault(), HasSubstr("too small"));
}

}  // namespace
}  // namespace mpsd::tls
