// SPDX-License-Identifier: Apache-2.0
#include "client/context_find.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kFingerprint =
    "SHA256:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:"
    "00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF";

class ContextFindTest : public ClientTest {
 protected:
  Result Print(const std::vector<dns_sd::Service>& services,
               bool json = false) {
    std::ostringstream out, err;
    Connection connection(SocketAddress());
    const Console console{out, err, terminal_, connection, json};
    const ExitCode code = PrintFound(console, services);
    return {static_cast<int>(code), out.str(), err.str()};
  }
};

TEST_F(ContextFindTest, AnAddressToLogInTo) {
  const Result result = Print({{"studio",
                                "studio.local",
                                7443,
                                {{"version", "0.1.0"}, {"ca", kFingerprint}}}});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("studio.local:7443"));
  EXPECT_THAT(result.out, HasSubstr(kFingerprint));
  EXPECT_THAT(result.err, HasSubstr("compare the CA"));
}

TEST_F(ContextFindTest, JsonIsAnObjectALine) {
  const Result result = Print(
      {{"a", "a.local", 1, {{"version", "1"}}}, {"b", "b.local", 2, {}}}, true);
  EXPECT_EQ(result.out, R"({"name":"a","address":"a.local:1","version":"1",)"
                        R"("ca_fingerprint":""})"
                        "\n"
                        R"({"name":"b","address":"b.local:2","version":"",)"
                        R"("ca_fingerprint":""})"
                        "\n");
}

TEST_F(ContextFindTest, NamesOfTheNetworkSteerNothing) {
  const std::string bad = "\x1b[2J\r\n\xff\xe2\x80\xae";
  const Result result =
      Print({{bad + std::string(5000, 'x'),
              "studio.local",
              7443,
              {{"version", bad + std::string(250, 'y')}, {"ca", bad}}}});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(result.out, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_LT(result.out.size(), 500u);
  const Result json =
      Print({{bad, "studio.local", 7443, {{"version", bad}}}}, true);
  EXPECT_TRUE(nlohmann::json::accept(json.out)) << json.out;
  EXPECT_THAT(json.out, Not(HasSubstr("\x1b")));
}

TEST_F(ContextFindTest, HostsThatAreNoneAreLeftOut) {
  std::vector<dns_sd::Service> services;
  for (const char* host :
       {"-oProxyCommand=x", "", "a b", "a;b", "$(id)", "a\nb", "[::1]x"}) {
    services.push_back({"x", host, 7443, {}});
  }
  services.push_back({"x", "studio.local", 0, {}});
  const Result result = Print(services);
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("left out 8"));
}

TEST_F(ContextFindTest, NobodyTells) {
  const Result result = Print({});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("mpsd --advertise"));
}

TEST_F(ContextFindTest, IsAVerbBelowContext) {
  CLI::App app;
  Action action;
  AddContextFind(*app.add_subcommand("context", ""), &action);
  app.parse("context find --seconds 0.2");
  EXPECT_NE(action, nullptr);
  EXPECT_THROW(app.parse("context find --seconds 0"), CLI::ParseError);
}

}  // namespace
}  // namespace mpsd::client
