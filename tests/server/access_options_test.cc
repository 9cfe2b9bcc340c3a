// SPDX-License-Identifier: Apache-2.0
#include "server/access_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/core/scratch_folder.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class AccessOptionsTest : public testing::Test {
 protected:
  absl::StatusOr<std::variant<Config, PrintAndExit>> Read(
      std::vector<std::string> args) const {
    args.insert(args.end(), {"--state-dir", folder_.string()});
    return ParseConfig(args);
  }
  Config Parse(const std::vector<std::string>& args) const {
    const auto parsed = Read(args);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return std::get<Config>(*parsed);
  }
  std::string Fault(const std::vector<std::string>& args) const {
    return std::string(Read(args).status().message());
  }
  void Make(const std::string& name) const {
    fs::create_directories(folder_ / "tls");
    std::ofstream(folder_ / "tls" / name) << "x";
  }

  const fs::path folder_ = testing_support::FreshFolder("access");
};

TEST_F(AccessOptionsTest, NobodyElseComesUnlessAsked) {
  const Config config = Parse({});
  EXPECT_EQ(config.tls_cert, "");
  EXPECT_EQ(config.tls_key, "");
  EXPECT_EQ(config.socket_group, "");
  EXPECT_TRUE(config.admins.empty());
  EXPECT_TRUE(config.viewers.empty());
}

TEST_F(AccessOptionsTest, ReadsWhoMayCome) {
  const Config config =
      Parse({"--listen", "0.0.0.0:1", "--tls-cert", "/c", "--tls-key", "k",
             "--socket-group", "staff", "--admin", "ada", "--admin",
             "ops@example.org", "--viewer", "guest"});
  EXPECT_EQ(config.tls_cert, "/c");
  EXPECT_EQ(config.tls_key, fs::current_path() / "k");
  EXPECT_EQ(config.socket_group, "staff");
  EXPECT_THAT(config.admins, ElementsAre("ada", "ops@example.org"));
  EXPECT_THAT(config.viewers, ElementsAre("guest"));
}

TEST_F(AccessOptionsTest, WhatMpsdTlsInitMadeIsTheDefault) {
  Make("server.crt");
  Make("server.key");
  EXPECT_EQ(Parse({}).tls_cert, folder_ / "tls" / "server.crt");
  EXPECT_EQ(Parse({}).tls_key, folder_ / "tls" / "server.key");
}

TEST_F(AccessOptionsTest, CertificatesThatAreNamedStandAlone) {
  for (const char* name : {"server.crt", "server.key"}) Make(name);
  const Config config = Parse({"--tls-cert", "/c", "--tls-key", "/k"});
  EXPECT_EQ(config.tls_cert, "/c");
  EXPECT_EQ(config.tls_key, "/k");
  EXPECT_THAT(Fault({"--tls-cert", "/c"}), HasSubstr("give --tls-key too"));
}

TEST_F(AccessOptionsTest, NamesOfNobodyAreRefused) {
  EXPECT_THAT(Fault({"--admin", "Ada Lovelace"}),
              HasSubstr("--admin: 'Ada Lovelace' is no user's name"));
  EXPECT_THAT(Fault({"--viewer", ""}), HasSubstr("--viewer"));
  EXPECT_THAT(Fault({"--admin", "ada", "--viewer", "bob", "--viewer", "ada"}),
              HasSubstr("--viewer: 'ada' is an --admin already"));
}

}  // namespace
}  // namespace mpsd
