// SPDX-License-Identifier: Apache-2.0
#include "server/tls_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/core/scratch_folder.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct Outcome {
  int code;
  std::string out, err;
};

class TlsCommandTest : public testing::Test {
 protected:
  Outcome Run(std::vector<std::string> args) const {
    args.insert(args.end(), {"--state-dir", state_dir_.string()});
    return Typed(args);
  }
  static Outcome Typed(const std::vector<std::string>& args) {
    std::ostringstream out, err;
    const int code = TlsCommand(args, out, err);
    return {code, out.str(), err.str()};
  }
  nlohmann::json Shown() const {
    return nlohmann::json::parse(Run({"show", "--json"}).out);
  }

  const fs::path state_dir_ = testing_support::FreshFolder("tls_command");
};

TEST_F(TlsCommandTest, InitSaysWhatToDoNext) {
  const Outcome made = Run({"init", "--name", "gpu.example.com"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string fingerprint = Shown()["fingerprint"];
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("(397 days)"), HasSubstr("gpu.example.com, "),
                    HasSubstr("mpsd --listen 0.0.0.0:7433"),
                    HasSubstr("mpsctl token create --user NAME"),
                    HasSubstr("mpsctl login gpu.example.com:7433"),
                    HasSubstr("--fingerprint " + fingerprint)));
}

TEST_F(TlsCommandTest, ASecondInitRenewsNothingAndSaysSo) {
  Run({"init"});
  const nlohmann::json before = Shown();
  const Outcome again = Run({"init", "--name", "gpu.example.com"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, AllOf(HasSubstr("nothing was changed"),
                               HasSubstr("mpsd tls renew")));
  EXPECT_EQ(Shown(), before);
}

TEST_F(TlsCommandTest, RenewReportsHowTheDaemonLearnsOfIt) {
  Run({"init"});
  const nlohmann::json before = Shown();
  const Outcome renewed = Run({"renew", "--days", "30"});
  EXPECT_EQ(renewed.code, 0) << renewed.err;
  EXPECT_THAT(renewed.out,
              AllOf(HasSubstr("(30 days)"), HasSubstr("kill -HUP")));
  EXPECT_EQ(Shown()["fingerprint"], before["fingerprint"]);
  EXPECT_NE(Shown()["server"]["serial"], before["server"]["serial"]);
}

TEST_F(TlsCommandTest, ShowIsHumanAndMachineReadable) {
  const Outcome none = Run({"show"});
  EXPECT_EQ(none.code, 69);
  EXPECT_THAT(none.err, HasSubstr("`mpsd tls init` makes them"));
  Run({"init"});
  fs::permissions(state_dir_ / "tls" / "server.key", fs::perms::all);
  const nlohmann::json shown = Shown();
  EXPECT_EQ(shown["server"]["days_left"], 397);
  EXPECT_EQ(shown["authority"]["fingerprint"], shown["fingerprint"]);
  EXPECT_EQ(shown["problems"].size(), 1u);
  const Outcome text = Run({"show"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, AllOf(HasSubstr(std::string(shown["fingerprint"])),
                              HasSubstr("to fix       ")));
}

TEST_F(TlsCommandTest, WhatIsTypedWrongIsAUsageError) {
  const std::vector<std::string> cases[] = {{"frob"},
                                            {"init", "--frob"},
                                            {"init", "extra"},
                                            {"init", "--days", "398"},
                                            {"init", "--days", "0"},
                                            {"init", "--name", "a b"},
                                            {"init", "--name", "studio:7433"},
                                            {"issue", "--user", "ann"},
                                            {"show", "--name", "studio"}};
  for (const auto& args : cases) {
    const Outcome outcome = Run(args);
    EXPECT_EQ(outcome.code, 64) << testing::PrintToString(args);
    EXPECT_THAT(outcome.err, testing::StartsWith("mpsd tls: "));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(Typed({}).code, 64);
  EXPECT_FALSE(fs::exists(state_dir_ / "tls"));
}

}  // namespace
}  // namespace mpsd
