// SPDX-License-Identifier: Apache-2.0
#include "client/address.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace mpsd::client {
namespace {

class AddressTest : public testing::Test {
 protected:
  AddressTest() {
    unsetenv("MPSD_SERVER");
    unsetenv("MPSD_STATE_DIR");
    setenv("HOME", "/srv/ann", 1);
  }
  ~AddressTest() override {
    unsetenv("MPSD_SERVER");
    unsetenv("MPSD_STATE_DIR");
  }
};

TEST_F(AddressTest, DefaultIsTheSocketInTheDefaultStateFolder) {
  const Address address = FindAddress("", "");
#ifdef __APPLE__
  EXPECT_EQ(address.socket_path,
            "/srv/ann/Library/Application Support/mpsd/mpsd.sock");
#else
  EXPECT_EQ(address.socket_path, "/srv/ann/.local/state/mpsd/mpsd.sock");
#endif
  EXPECT_EQ(address.target, "unix:" + address.socket_path);
}

TEST_F(AddressTest, EachSourceGivesWayToTheOneBefore) {
  setenv("MPSD_STATE_DIR", "/state", 1);
  EXPECT_EQ(FindAddress("", "").target, "unix:/state/mpsd.sock");
  setenv("MPSD_SERVER", "studio:50051", 1);
  EXPECT_EQ(FindAddress("", "").target, "studio:50051");
  EXPECT_EQ(FindAddress("", "/given").target, "unix:/given/mpsd.sock");
  EXPECT_EQ(FindAddress("other:1", "/given").target, "other:1");
}

TEST_F(AddressTest, SocketsByPath) {
  for (const char* server :
       {"/run/mpsd.sock", "unix:/run/mpsd.sock", "unix:///run/mpsd.sock"}) {
    EXPECT_EQ(FindAddress(server, "").target, "unix:/run/mpsd.sock") << server;
    EXPECT_EQ(FindAddress(server, "").socket_path, "/run/mpsd.sock") << server;
  }
}

TEST_F(AddressTest, RelativePathsBecomeAbsolute) {
  const std::string target = FindAddress("", "state").target;
  EXPECT_EQ(target.substr(0, 6), "unix:/");
  EXPECT_EQ(FindAddress("./state/mpsd.sock", "").target, target);
}

TEST_F(AddressTest, BehindSshThereIsATunnel) {
  const Address address = FindAddress("ssh://ann@studio", "");
  EXPECT_EQ(address.target, "ssh://ann@studio");
  EXPECT_EQ(address.socket_path, "");
  EXPECT_NE(address.tunnel, nullptr);
  setenv("MPSD_SERVER", "ssh://studio", 1);
  EXPECT_NE(FindAddress("", "").tunnel, nullptr);
  EXPECT_EQ(FindAddress("", "/state").tunnel, nullptr);
  EXPECT_EQ(FindAddress("studio:50051", "").tunnel, nullptr);
}

TEST_F(AddressTest, HostsHaveNoSocket) {
  EXPECT_EQ(FindAddress("studio:50051", "").socket_path, "");
}

}  // namespace
}  // namespace mpsd::client
