// SPDX-License-Identifier: Apache-2.0
#include "server/listener/listen_address.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::listener {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddress, SocketPaths) {
  EXPECT_EQ(SocketPath("unix:/run/m.sock"), "/run/m.sock");
  EXPECT_EQ(SocketPath("unix:///run/m.sock"), "/run/m.sock");
  EXPECT_EQ(SocketPath("unix:m.sock"), "m.sock");
  EXPECT_EQ(SocketPath("127.0.0.1:1"), "");
}

TEST(ListenAddress, ThePortIsFilledIn) {
  EXPECT_EQ(BoundAddress("127.0.0.1:0", 4711), "127.0.0.1:4711");
  EXPECT_EQ(BoundAddress("[::1]:0", 4711), "[::1]:4711");
  EXPECT_EQ(BoundAddress("unix:/a", 1), "unix:/a");
}

TEST(ListenAddress, LoopbackIsOfThisMachineAlone) {
  for (const char* address : {"localhost:1", "LocalHost:1", "127.0.0.1:1",
                              "127.9.9.9:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1", "mac.local:1",
        "localhost.example:1", "127.0.0.1.example:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(ListenAddress, WhatCannotBeIsRefused) {
  const std::string file =
      (testing_support::FreshFolder("address") / "file").string();
  std::ofstream(file) << "precious";
  EXPECT_TRUE(CheckListenAddress("127.0.0.1:0").ok());
  EXPECT_TRUE(CheckListenAddress("unix:" + file + ".sock").ok());
  const auto message = [](const std::string& address) {
    const absl::Status status = CheckListenAddress(address);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message("unix:/" + std::string(200, 'x')),
              HasSubstr("shorter --state-dir"));
  EXPECT_THAT(message("unix:" + file), HasSubstr("is no socket"));
  EXPECT_THAT(message("unix:"), HasSubstr("expected HOST:PORT"));
  EXPECT_THAT(message("localhost"), HasSubstr("expected HOST:PORT"));
  for (const char* address : {"", ":9464", "9464", "localhost:http",
                              "localhost:70000", "localhost:-1"}) {
    EXPECT_THAT(message(address), HasSubstr("expected HOST:PORT"));
  }
}

}  // namespace
}  // namespace mpsd::listener
