// SPDX-License-Identifier: Apache-2.0
#include "server/tls_command.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd {
namespace {

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

  const fs::path state_dir_ = FreshFolder("tls_command");
};

TEST_F(TlsCommandTest, InitSaysWhatToDoNext) {
  const Outcome made = Run({"init", "--name", "gpu.example.com"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string fingerprint = Shown()["fingerprint"];
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("(397 days)"), HasSubstr("gpu.example.com, "),
                    HasSubstr("mpsd --state-dir " + state_dir_.string() +
                              " --listen 0.0.0.0:7433"),
                    HasSubstr("mpsctl --state-dir " + state_dir_.string() +
                              " admin token create --user NAME"),
                    HasSubstr("mpsctl login gpu.example.com:7433"),
                    HasSubstr("--fingerprint " + fingerprint)));
}

TEST_F(TlsCommandTest, TheFileMayNameTheFolder) {
  const fs::path file = FreshFolder("tls_config") / "m.toml";
  std::ofstream(file) << "state-dir = \"" << state_dir_.string()
                      << "\"\nlisten = [\"0.0.0.0:17433\"]\n";
  const Outcome made = Typed({"init", "--config", file.string()});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(fs::exists(state_dir_ / "tls" / "server.crt"));
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("restart mpsd, which " + file.string() +
                              " lets listen on 0.0.0.0:17433\n"),
                    testing::ContainsRegex("mpsctl login [^ ]+:17433 "),
                    HasSubstr("mpsctl --state-dir " + state_dir_.string())));
  EXPECT_THAT(Typed({"init", "--config", file.string()}).out,
              HasSubstr("mpsd tls renew --config " + file.string()));
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
