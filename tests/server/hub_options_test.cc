// SPDX-License-Identifier: Apache-2.0
#include "server/hub_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/core/scratch_folder.h"

namespace mpsd {
namespace {

using testing::HasSubstr;

class HubOptionsTest : public testing::Test {
 protected:
  HubOptionsTest() { unsetenv("HF_ENDPOINT"); }
  ~HubOptionsTest() override { unsetenv("HF_ENDPOINT"); }
  absl::StatusOr<std::variant<Config, PrintAndExit>> Read(
      std::vector<std::string> args) const {
    args.insert(args.end(), {"--state-dir", folder_.string()});
    return ParseConfig(args);
  }
  hub::Settings Parse(const std::vector<std::string>& args) const {
    const auto parsed = Read(args);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? std::get<Config>(*parsed).hub : hub::Settings();
  }
  std::string Fault(const std::vector<std::string>& args) const {
    return std::string(Read(args).status().message());
  }

  const std::filesystem::path folder_ = testing_support::FreshFolder("hub");
};

TEST_F(HubOptionsTest, MpsdAsksNobodyUnlessTold) {
  EXPECT_EQ(Parse({}), hub::Settings());
}

TEST_F(HubOptionsTest, ReadsTheHub) {
  const hub::Settings hub =
      Parse({"--hub", "https://hub.example", "--hub-token-file", "/token",
             "--hub-ca-file", "/ca.pem", "--hub-allow-private"});
  EXPECT_EQ(hub.url, "https://hub.example");
  EXPECT_EQ(hub.token_file, "/token");
  EXPECT_EQ(hub.ca_file, "/ca.pem");
  EXPECT_TRUE(hub.allow_private);
}

TEST_F(HubOptionsTest, ReadsTheFile) {
  const std::string file = folder_ / "mpsd.toml";
  std::ofstream(file) << "hub = \"https://hub.example\"\n"
                         "hub-token-file = \"/token\"\n"
                         "hub-ca-file = \"/ca.pem\"\n"
                         "hub-allow-private = true\n";
  const hub::Settings hub = Parse({"--config", file});
  EXPECT_EQ(hub.url, "https://hub.example");
  EXPECT_EQ(hub.token_file, "/token");
  EXPECT_TRUE(hub.allow_private);
}

TEST_F(HubOptionsTest, TheHubIsThatOfHuggingFacesOwnVariable) {
  setenv("HF_ENDPOINT", "https://mirror.example", 1);
  EXPECT_EQ(Parse({}).url, "https://mirror.example");
  EXPECT_EQ(Parse({"--hub", "https://hub.example"}).url, "https://hub.example");
  EXPECT_EQ(Parse({"--hub", "off"}).url, "");
  EXPECT_EQ(Parse({"--environment", "HF_ENDPOINT=https://other.example"}).url,
            "https://other.example");
}

TEST_F(HubOptionsTest, SaysWhatIsWrong) {
  EXPECT_THAT(Fault({"--hub", "hub.example"}), HasSubstr("--hub: expected"));
  EXPECT_THAT(Fault({"--hub-token-file", "/token"}), HasSubstr("give --hub"));
  EXPECT_THAT(
      Fault({"--hub", "http://hub.example", "--hub-token-file", "/token"}),
      HasSubstr("in plain text"));
}

}  // namespace
}  // namespace mpsd
