// SPDX-License-Identifier: Apache-2.0
#include "server/listen_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The fault of a configuration; "" for none.
std::string Fault(const Config& config) {
  const absl::Status status = CheckAddresses(config);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST(CheckAddresses, BeyondTheMachineTheApiHasACertificate) {
  Config config;
  for (const char* address :
       {"unix:/x", "127.0.0.1:1", "localhost:1", "[::1]:1"}) {
    config.listen = {"unix:/y", address};
    EXPECT_EQ(Fault(config), "") << address;
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", "mac.local:1", "10.0.0.1:1"}) {
    config.tls_cert = config.tls_key = "";
    config.listen = {"unix:/x", "127.0.0.1:1", address};
    EXPECT_THAT(Fault(config),
                AllOf(HasSubstr(std::string("--listen ") + address +
                                ": without a certificate"),
                      HasSubstr("mpsd tls init"), HasSubstr("ssh://")));
    config.tls_cert = config.tls_key = "/c";
    EXPECT_EQ(Fault(config), "") << address;
  }
}

TEST(CheckAddresses, ACertificateHasItsKey) {
  Config config;
  config.tls_cert = "/c";
  EXPECT_THAT(Fault(config), HasSubstr("--tls-cert: the certificate and its "
                                       "key come together; give --tls-key"));
  config.tls_cert = "";
  config.tls_key = "/k";
  EXPECT_THAT(Fault(config), HasSubstr("give --tls-cert too"));
  config.tls_cert = config.tls_key = "/c";
  EXPECT_EQ(Fault(config), "");
  config.metrics_tls_cert = "/c";
  EXPECT_THAT(Fault(config), HasSubstr("give --metrics-tls-key too"));
  config.metrics_tls_key = "/k";
  EXPECT_EQ(Fault(config), "");
  config.metrics_tls_cert.clear();
  EXPECT_THAT(Fault(config), HasSubstr("give --metrics-tls-cert too"));
}

TEST(CheckAddresses, ThePageIsThisMachinesAlone) {
  Config config;
  for (const char* address :
       {"", "127.0.0.1:9465", "[::1]:0", "localhost:80", "unix:/run/page"}) {
    config.http_listen = address;
    EXPECT_EQ(Fault(config), "") << address;
  }
  for (const char* address :
       {"0.0.0.0:80", "mac.local:80", "[::]:80", "9465"}) {
    config.http_listen = address;
    EXPECT_THAT(Fault(config), HasSubstr(std::string("--http-listen ") +
                                         address + ": the web page"));
  }
}

TEST(CheckAddresses, ATokenIsNotReadAsItPasses) {
  Config config;
  config.metrics_token_file = "/t";
  for (const char* address :
       {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/m", ""}) {
    config.metrics_address = address;
    EXPECT_EQ(Fault(config), "") << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "mac.local:1"}) {
    config.metrics_address = address;
    EXPECT_THAT(Fault(config), HasSubstr(std::string("--metrics-token-file: "
                                                     "on ") +
                                         address));
    config.metrics_tls_cert = config.metrics_tls_key = "/c";
    EXPECT_EQ(Fault(config), "");
    config.metrics_tls_cert = config.metrics_tls_key = "";
  }
  // Without one they may be open: they show names and numbers of jobs and
  // change nothing.
  config.metrics_token_file = "";
  config.metrics_address = "0.0.0.0:9464";
  EXPECT_EQ(Fault(config), "");
}

TEST(IsPort, IsEverythingButASocket) {
  EXPECT_FALSE(IsPort("unix:/x"));
  EXPECT_TRUE(IsPort("127.0.0.1:1"));
  EXPECT_TRUE(IsPort("dns:///here:1"));
}

}  // namespace
}  // namespace mpsd
