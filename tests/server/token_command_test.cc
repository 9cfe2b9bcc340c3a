// SPDX-License-Identifier: Apache-2.0
#include "server/token_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/api_token.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Outcome {
  int code;
  std::string out, err;
};

class TokenCommandTest : public testing::Test {
 protected:
  TokenCommandTest()
      : folder_(fs::path("/tmp") / ("mpsd-token-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TokenCommandTest() override { fs::remove_all(folder_); }

  static Outcome Typed(const std::vector<std::string>& args) {
    std::ostringstream out, err;
    const int code = TokenCommand(args, out, err);
    return {code, out.str(), err.str()};
  }
  Outcome Run(std::vector<std::string> args) const {
    args.insert(args.end(), {"--state-dir", folder_.string()});
    return Typed(args);
  }
  std::vector<nlohmann::json> Listed() const {
    std::istringstream lines(Run({"list", "--json"}).out);
    std::vector<nlohmann::json> tokens;
    for (std::string line; std::getline(lines, line);) {
      tokens.push_back(nlohmann::json::parse(line));
    }
    return tokens;
  }

  const fs::path folder_;
};

TEST_F(TokenCommandTest, TheOutputIsTheTokenAndNothingElse) {
  const Outcome made = Run({"create", "--user", "ann", "--role", "user"});
  ASSERT_EQ(made.code, 0) << made.err;
  ASSERT_EQ(made.out.back(), '\n');
  const std::string secret = made.out.substr(0, made.out.size() - 1);
  EXPECT_TRUE(base::IsApiToken(secret));
  EXPECT_THAT(made.err, HasSubstr("of ann, with the role user"));
  EXPECT_THAT(made.err, HasSubstr("in 90 days"));
  EXPECT_THAT(made.err, HasSubstr("mpsd token revoke "));
  EXPECT_THAT(made.err, Not(HasSubstr(secret)));
}

TEST_F(TokenCommandTest, ListsAndRevokes) {
  Run({"create", "--user", "ann", "--role", "user", "--note", "laptop"});
  Run({"create", "--user", "bob", "--role", "admin", "--expires", "never"});
  const auto tokens = Listed();
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0]["user"], "bob");
  EXPECT_EQ(tokens[0]["expire_time"], nullptr);
  EXPECT_EQ(tokens[1]["note"], "laptop");
  EXPECT_EQ(tokens[1].contains("secret"), false);
  const std::string of_ann = tokens[1]["id"], of_bob = tokens[0]["id"];
  EXPECT_THAT(Run({"list"}).out, HasSubstr(of_ann + "  ann   user"));
  EXPECT_EQ(Run({"revoke", of_ann, of_bob}).code, 0);
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(Run({"list"}).out, HasSubstr("No tokens."));
}

TEST_F(TokenCommandTest, OneThatCannotBeRevokedKeepsNoOtherFromIt) {
  Run({"create", "--user", "ann", "--role", "user"});
  const std::string id = Listed()[0]["id"];
  const Outcome revoked = Run({"revoke", "000000000000", id});
  EXPECT_EQ(revoked.code, 69);
  EXPECT_THAT(revoked.err, HasSubstr("there is no token 000000000000"));
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(TokenCommandTest, ATokenGivenForItsIdIsNotQuoted) {
  std::string secret = Run({"create", "--user", "a", "--role", "user"}).out;
  secret.pop_back();
  const Outcome revoked = Run({"revoke", secret});
  EXPECT_EQ(revoked.code, 64);
  EXPECT_THAT(revoked.err, HasSubstr("not its id"));
  EXPECT_THAT(revoked.err, Not(HasSubstr(secret)));
  EXPECT_EQ(Listed().size(), 1u);
}

TEST_F(TokenCommandTest, TheFolderMayBeOfTheConfigurationFile) {
  const fs::path file = folder_ / "mpsd.toml";
  std::ofstream(file) << "state-dir = \"" << folder_.string() << "\"\n";
  const Outcome made = Typed(
      {"create", "--user", "ann", "--role", "user", "--config", file.string()});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(Listed().size(), 1u);
}

TEST_F(TokenCommandTest, WhatTheCommandLineHasWrongIsToldAndNothingIsMade) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{
           {},
           {"lend"},
           {"create", "--user", "ann"},
           {"create", "--user", "ann", "--role", "god"},
           {"create", "--user", "a b", "--role", "user"},
           {"create", "--user", "\x1b[2J", "--role", "user"},
           {"create", "--user", "ann", "--role", "user", "--expires", "soon"},
           {"create", "--user", "ann", "--role", "user", "--expires",
            "2020-01-01"},
           {"create", "--user", "ann", "--role", "user", "--note", "a\nb"}}) {
    const Outcome wrong = Run(args);
    EXPECT_EQ(wrong.code, 64) << wrong.err;
    EXPECT_THAT(wrong.out, IsEmpty());
    EXPECT_THAT(wrong.err, HasSubstr("mpsd token: "));
    EXPECT_THAT(wrong.err, Not(HasSubstr("\x1b")));
  }
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(TokenCommandTest, HelpIsNoError) {
  const Outcome help = Typed({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("revoke"));
  EXPECT_THAT(Typed({"create", "--help"}).out, HasSubstr("2027-01-31"));
}

TEST_F(TokenCommandTest, AnOutputThatIsFullIsAnError) {
  std::ofstream full("/dev/full");
  if (!full) GTEST_SKIP() << "this system has no /dev/full";
  std::ostringstream err;
  EXPECT_EQ(TokenCommand({"create", "--user", "ann", "--role", "user",
                          "--state-dir", folder_.string()},
                         full, err),
            69);
  // The token is there, and nobody has it.
  EXPECT_THAT(err.str(), HasSubstr("mpsd token revoke "));
  EXPECT_THAT(err.str(), HasSubstr("could not be written"));
}

}  // namespace
}  // namespace mpsd
