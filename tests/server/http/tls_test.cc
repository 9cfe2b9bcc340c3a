// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "server/http/server.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/http/certificate.h"

namespace mpsd::http {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TlsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Server>> Open() const {
    return Server::Open({.address = "127.0.0.1:0", .tls = files_});
  }
  std::string Fault() const {
    const absl::Status status = Open().status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }

  const fs::path folder_ = testing_support::FreshFolder("tls");
  const tls::ServerFiles files_ = MakeCertificate(folder_, 30);
};

TEST_F(TlsTest, ReadsACertificateWithItsKey) {
  const auto server = Open();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_NEAR(
      absl::ToDoubleHours(*(*server)->certificate_expiry() - absl::Now()),
      30 * 24, 1);
}

TEST_F(TlsTest, AKeyThatOthersReadIsRefused) {
  fs::permissions(files_.key, fs::perms::others_read, fs::perm_options::add);
  EXPECT_THAT(Fault(), HasSubstr("chmod 600 " + files_.key.string()));
}

TEST_F(TlsTest, AForeignKeyIsRefused) {
  const tls::ServerFiles other = MakeCertificate(folder_, 30, "other");
  fs::copy_file(other.key, files_.key, fs::copy_options::overwrite_existing);
  EXPECT_THAT(Fault(), HasSubstr(files_.key.string()));
}

TEST_F(TlsTest, AKeyWithAPassphraseIsRefusedWithoutAsking) {
  const std::string command = "openssl ec -in '" + files_.key.string() +
                              "' -aes256 -passout pass:secret -out '" +
                              files_.key.string() + "' 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(Fault(), HasSubstr("without a passphrase"));
}

TEST_F(TlsTest, WhatIsNoPemIsRefused) {
  std::ofstream(files_.certificate) << "no certificate";
  EXPECT_THAT(Fault(), HasSubstr("expected certificates in PEM format"));
  std::ofstream(files_.certificate) << std::string(limits::kPemBytes + 1, '-');
  EXPECT_THAT(Fault(), HasSubstr("longer than"));
  fs::remove(files_.certificate);
  EXPECT_THAT(Fault(), HasSubstr(files_.certificate.string()));
}

}  // namespace
}  // namespace mpsd::http
