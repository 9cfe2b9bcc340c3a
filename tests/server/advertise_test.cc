// SPDX-License-Identifier: Apache-2.0
#include "server/advertise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/fingerprint.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;

TEST(AdvertisedPort, TheFirstThatOtherMachinesReach) {
  EXPECT_EQ(AdvertisedPort({"unix:/s", "127.0.0.1:1", "[::1]:2", "0.0.0.0:3",
                            "studio.local:4"}),
            3);
  EXPECT_EQ(AdvertisedPort({"[2001:db8::1]:65535"}), 65535);
  EXPECT_EQ(AdvertisedPort({"unix:/s", "localhost:1"}), std::nullopt);
  EXPECT_EQ(AdvertisedPort({}), std::nullopt);
}

TEST(AdvertisedFacts, AFileThatSaysNothingIsNoFault) {
  const fs::path file = fs::path(testing::TempDir()) / "advertised.crt";
  fs::remove(file);
  EXPECT_EQ(AdvertisedFacts(file).count("ca"), 0u);
  std::ofstream(file) << "-----BEGIN CERTIFICATE-----\nAAAA\n";
  EXPECT_EQ(AdvertisedFacts(file).count("ca"), 0u);
  EXPECT_NE(AdvertisedFacts(file).at("version"), "");
  fs::remove(file);
}

TEST(Advertise, OnlyIfItIsAskedFor) {
  const auto log = [](const std::string& line) { FAIL() << line; };
  EXPECT_EQ(Advertise(Config(), {"0.0.0.0:7443"}, log), nullptr);
  Config config;
  config.advertise = true;
  EXPECT_EQ(Advertise(config, {"unix:/s", "127.0.0.1:7443"}, log), nullptr);
}

}  // namespace
}  // namespace mpsd
