// SPDX-License-Identifier: Apache-2.0
#include "client/tls/system_roots.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

namespace mpsd::client {
namespace {

class SystemRootsTest : public testing::Test {
 protected:
  ~SystemRootsTest() override { unsetenv("SSL_CERT_FILE"); }
};

TEST_F(SystemRootsTest, TheFileThatTheEnvironmentNames) {
  const std::string path =
      testing::TempDir() + "roots-" + std::to_string(getpid()) + ".pem";
  std::ofstream(path) << "roots";
  setenv("SSL_CERT_FILE", path.c_str(), 1);
  EXPECT_EQ(SystemRoots().value(), "roots");
  unlink(path.c_str());
  setenv("SSL_CERT_FILE", "/nowhere/roots.pem", 1);
  EXPECT_EQ(SystemRoots().status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(SystemRoots().status().message().find("/nowhere/roots.pem"),
            std::string::npos);
}

TEST_F(SystemRootsTest, TheSystemsOwn) {
  unsetenv("SSL_CERT_FILE");
  const auto roots = SystemRoots();
  if (!roots.ok()) GTEST_SKIP() << "this machine trusts nobody";
  EXPECT_NE(roots->find("-----BEGIN CERTIFICATE-----"), std::string::npos);
}

}  // namespace
}  // namespace mpsd::client
