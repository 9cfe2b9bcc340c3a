// SPDX-License-Identifier: Apache-2.0
#include "tests/client/port_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class ContextVerbTest : public PortClientTest {};

TEST_F(ContextVerbTest, ListMarksTheCurrentOne) {
  EXPECT_EQ(RunBare({"context", "list"}).out,
            "CURRENT  NAME   USER  SERVER\n"
            "*        local        this machine's own daemon\n");
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  const Result list = RunBare({"context", "list"});
  EXPECT_EQ(list.code, 0);
  EXPECT_EQ(list.out,
            "CURRENT  NAME    USER  SERVER\n"
            "         local         this machine's own daemon\n"
            "*        studio  ann   " +
                Server() + "\n");
  EXPECT_EQ(RunBare({"context", "list", "--quiet"}).out, "local\nstudio\n");
  const auto json =
      nlohmann::json::parse(RunBare({"--json", "context", "list"}).out);
  EXPECT_EQ(json["name"], "studio");
  EXPECT_EQ(json["has_token"], true);
  EXPECT_EQ(json["is_current"], true);
}

TEST_F(ContextVerbTest, AContextThatIsBrokenIsListed) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  std::ofstream(Contexts().FileOf("studio")) << "{";
  EXPECT_THAT(RunBare({"context", "list"}).out, HasSubstr("broken: "));
  EXPECT_NE(nlohmann::json::parse(
                RunBare({"--json", "context", "list"}).out)["error"],
            "");
}

TEST_F(ContextVerbTest, UseChoosesWhereVerbsGo) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  const Result local = RunBare({"context", "use", "local"});
  EXPECT_EQ(local.out, "mpsctl goes to this machine's own daemon now.\n");
  EXPECT_EQ(RunBare({"info"}).code, 3);
  EXPECT_EQ(RunBare({"--context", "studio", "info"}).code, 0);
  EXPECT_EQ(RunBare({"context", "use", "studio"}).out,
            "mpsctl goes to " + Server() + " now.\n");
  EXPECT_EQ(RunBare({"info"}).code, 0);
  EXPECT_EQ(RunBare({"--context", "local", "info"}).code, 3);
  setenv("MPSD_CONTEXT", "local", 1);
  EXPECT_EQ(RunBare({"info"}).code, 3);
  unsetenv("MPSD_CONTEXT");
  EXPECT_EQ(RunBare({"context", "use", "attic"}).code, 4);
  EXPECT_EQ(RunBare({"context", "use", "A/B"}).code, 2);
}

TEST_F(ContextVerbTest, ShowTellsNoSecret) {
  EXPECT_THAT(RunBare({"context", "show"}).out, HasSubstr("local"));
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"context", "show"},
        {"context", "show", "studio"},
        {"context", "show", "studio", "--json"}}) {
    const Result show = RunBare(args);
    EXPECT_EQ(show.code, 0) << show.err;
    EXPECT_THAT(show.out, HasSubstr(Server()));
    EXPECT_THAT(show.out, Not(HasSubstr(Token())));
  }
  EXPECT_THAT(RunBare({"context", "show"}).out,
              HasSubstr("authority    " + FingerprintOf(authority_.pem())));
  EXPECT_EQ(RunBare({"context", "show", "attic"}).code, 4);
}

TEST_F(ContextVerbTest, Remove) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  EXPECT_EQ(RunBare({"context", "remove", "studio"}).code, 0);
  EXPECT_EQ(RunBare({"context", "list", "--quiet"}).out, "local\n");
  EXPECT_EQ(RunBare({"context", "remove", "studio"}).code, 4);
  EXPECT_EQ(RunBare({"context", "remove"}).code, 2);
  EXPECT_EQ(RunBare({"context"}).code, 2);
}

}  // namespace
}  // namespace mpsd::client
