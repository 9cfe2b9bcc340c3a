// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listen_address.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
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

TEST(ListenAddress, WhatCannotBeIsRefused) {
  Scratch scratch;
  const std::string file = (scratch.path() / "file").string();
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
  EXPECT_THAT(message(""), HasSubstr("expected HOST:PORT"));
}

}  // namespace
}  // namespace mpsd::rpc
