// SPDX-License-Identifier: Apache-2.0
#include "client/access.h"

#include <sys/stat.h>

#include "tests/client/client_fixture.h"
#include "tests/client/port_fixture.h"

namespace mpsd::client {
namespace {

class LoginTest : public PortClientTest {
 protected:
  ~LoginTest() override { unsetenv("MPSD_TOKEN"); }
  void ExpectNothingStored() {
    EXPECT_THAT(Contexts().Names().value(), IsEmpty());
    EXPECT_FALSE(std::filesystem::exists(ContextStore::DefaultFolder()));
  }
};

TEST_F(LoginTest, APersonAtATerminal) {
  const Result result = Login();
  EXPECT_THAT(
      result,
      Ends(0,
           AllOf(HasSubstr("Logged in at " + Server()),
                 HasSubstr("you          ann, user, by token 0a1b2c3d4e5f, "
                           "which never expires"),
                 HasSubstr("(30 days)")),
           AllOf(HasSubstr("fingerprint  " + FingerprintOf(authority_.pem())),
                 HasSubstr("names        127.0.0.1, localhost"))));
  EXPECT_THAT(result.out + result.err, Not(HasSubstr(Token())));
  EXPECT_EQ(asked_,
            "Trust it? (yes/no) \nToken for " + Server() + ": (hidden)\n");
  const Context context = Contexts().Find("127.0.0.1").value();
  EXPECT_EQ(context.server, Server());
  EXPECT_EQ(context.user, "ann");
  EXPECT_EQ(context.ca_pem, authority_.pem());
  EXPECT_EQ(context.token, Token());
  // The next command goes there.
  EXPECT_EQ(Contexts().Current().value(), "127.0.0.1");
  EXPECT_THAT(RunBare({"info"}),
              Prints(HasSubstr("you            ann, user, by token")));
}

TEST_F(LoginTest, NamesAVariableThatDecidesBeforeTheContext) {
  answers_ = {"yes", Token()};
  setenv("MPSD_STATE_DIR", "/srv/x", 1);
  EXPECT_THAT(RunBare({"login", Server()}),
              Ends(0, Not(HasSubstr("now goes there")),
                   HasSubstr("warning: MPSD_STATE_DIR=/srv/x is set")));
  EXPECT_THAT(RunBare({"context", "use", "local"}),
              Ends(0, IsEmpty(), HasSubstr("--context local")));
  setenv("MPSD_SERVER", Server().c_str(), 1);  // leads there, too
  EXPECT_THAT(RunBare({"context", "use", "127.0.0.1"}),
              Ends(0, HasSubstr("goes to"), IsEmpty()));
  unsetenv("MPSD_SERVER");
  unsetenv("MPSD_STATE_DIR");
}

TEST_F(LoginTest, AScriptGivesFingerprintAndToken) {
  setenv("MPSD_TOKEN", (Token() + "\n").c_str(), 1);
  const std::string fingerprint = FingerprintOf(authority_.pem());
  EXPECT_EQ(RunBare({"login", Server(), "--fingerprint", fingerprint}).code, 0);
  unsetenv("MPSD_TOKEN");
  const std::string file = Write("token", Token() + "\r\n");
  chmod(file.c_str(), 0600);
  const std::string out =
      BareOut({"login", Server(), "--fingerprint", fingerprint, "--token-file",
               file, "--name", "ci", "--json"});
  EXPECT_EQ(ParseJson(out)["user"], "ann");
  EXPECT_EQ(Contexts().Find("ci")->token, Token());
  EXPECT_EQ(asked_, "");
}

TEST_F(LoginTest, TheTokenComesByStandardInput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text = Token() + "\n";
  ASSERT_EQ(write(ends[1], text.data(), text.size()),
            static_cast<ssize_t>(text.size()));
  close(ends[1]);
  const int before = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);
  answers_ = {"yes"};
  const Result result = RunBare({"login", Server(), "--token-file", "-"});
  dup2(before, STDIN_FILENO);
  close(before);
  close(ends[0]);
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(LoginTest, WithoutAYesOrATokenNothingIsStored) {
  EXPECT_THAT(RunBare({"login", Server()}),
              Fails(2, HasSubstr("--fingerprint")));
  EXPECT_THAT(RunBare({"login", Server(), "--fingerprint",
                       FingerprintOf(authority_.pem())}),
              Fails(2, HasSubstr("--token-file - or MPSD_TOKEN")));
  answers_ = {"no"};
  EXPECT_THAT(RunBare({"login", Server()}),
              Fails(8, HasSubstr("not trusted; nothing was stored")));
  ExpectNothingStored();
  EXPECT_THAT(data().authorizations, IsEmpty());
}

TEST_F(LoginTest, AnotherFingerprint) {
  const TestAuthority another(folder_ / "another");
  EXPECT_THAT(
      RunBare(
          {"login", Server(), "--fingerprint", FingerprintOf(another.pem())}),
      Fails(8, AllOf(HasSubstr("expected " + FingerprintOf(another.pem())),
                     HasSubstr("someone is intercepting"))));
  EXPECT_EQ(RunBare({"login", Server(), "--fingerprint", "SHA256:zz"}).code, 2);
  EXPECT_THAT(data().authorizations, IsEmpty());
  ExpectNothingStored();
}

TEST_F(LoginTest, AnAuthorityThatTheSystemTrustsIsNotAskedAbout) {
  setenv("SSL_CERT_FILE", Write("roots.pem", authority_.pem()).c_str(), 1);
  answers_ = {Token()};
  EXPECT_THAT(RunBare({"login", Server()}), Prints());
  EXPECT_EQ(Contexts().Find("127.0.0.1")->ca_pem, "");
  EXPECT_EQ(RunBare({"info"}).code, 0);
  unsetenv("SSL_CERT_FILE");
}

TEST_F(LoginTest, TokensThatAreNone) {
  for (const std::string& token :
       {std::string("mpsd_short"), Token() + "\nx: y", std::string()}) {
    answers_ = {"yes", token};
    EXPECT_THAT(RunBare({"login", Server()}),
                Fails(2, AllOf(HasSubstr("token is incomplete"),
                               Not(HasSubstr(Token())))));
  }
  EXPECT_THAT(data().authorizations, IsEmpty());
  answers_ = {"yes", Token('x')};
  EXPECT_THAT(RunBare({"login", Server()}),
              Fails(8, HasSubstr("does not let you in: no such token")));
  ExpectNothingStored();
}

TEST_F(LoginTest, AnEndlessNameOfTheUserIsCut) {
  data().who.set_user(std::string(1 << 20, 'a') + "\x1b[2J");
  EXPECT_THAT(Login(), Prints());
  EXPECT_EQ(Contexts().Find("127.0.0.1")->user.size(), 64);
  EXPECT_EQ(RunBare({"info"}).code, 0);
}

TEST_F(LoginTest, ATokenFileThatOthersMayRead) {
  const std::string file = Write("token", Token());
  chmod(file.c_str(), 0644);
  answers_ = {"yes"};
  EXPECT_THAT(RunBare({"login", Server(), "--token-file", file}),
              Fails(2, HasSubstr("chmod 600")));
}

TEST_F(LoginTest, CertificatesThatDoNotDo) {
  const TestAuthority another(folder_ / "another");
  const std::pair<std::shared_ptr<grpc::ServerCredentials>, TextMatcher>
      cases[] = {
          {TlsServer(authority_.Issue("DNS:studio.local,DNS:studio"),
                     authority_.pem()),
           HasSubstr("is not for '127.0.0.1', but for studio.local, studio")},
          {TlsServer(authority_.Issue("IP:127.0.0.1", -1), authority_.pem()),
           AllOf(HasSubstr("expired on "), HasSubstr("mpsd tls renew"))},
          {TlsServer(authority_.Issue("IP:127.0.0.1"), another.pem()),
           HasSubstr("do not chain up to the last of them")},
          {TlsServer(authority_.Issue("IP:127.0.0.1")),
           HasSubstr("without the authority's")}};
  for (const auto& [credentials, why] : cases) {
    Serve(credentials);
    EXPECT_THAT(Login(), Fails(8, why));
    EXPECT_EQ(asked_, "");
    ExpectNothingStored();
  }
}

TEST_F(LoginTest, NamesOfACertificateCannotSteerTheTerminal) {
  const TestAuthority hostile(folder_ / "hostile",
                              "/CN=\x1b]0;owned\x07\x1b[2J\xe2\x80\xae");
  Serve(TlsServer(hostile.Issue("IP:127.0.0.1,DNS:a\x1b[31mb\x07", 30),
                  hostile.pem()));
  answers_ = {"no"};
  const Result result = RunBare({"login", Server()});
  EXPECT_THAT(result.err, HasSubstr("fingerprint"));
  for (const char* bad : {"\x1b", "\x07", "\xe2\x80\xae"}) {
    EXPECT_THAT(result.err, Not(HasSubstr(bad)));
  }
}

TEST_F(LoginTest, ASelfSignedCertificate) {
  OpenSsl(folder_,
          "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
          "-subj /CN=x -addext subjectAltName=IP:127.0.0.1 -days 30 -out "
          "self.crt -keyout self.key");
  Serve(TlsServer({*base::ReadFile(folder_ / "self.crt"),
                   *base::ReadFile(folder_ / "self.key")}));
  EXPECT_THAT(Login(), Prints());
  EXPECT_EQ(RunBare({"info"}).code, 0);
}

TEST_F(LoginTest, ALoopbackWithoutTls) {
  Serve(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  answers_ = {Token()};
  EXPECT_THAT(RunBare({"login", Server("localhost")}),
              Prints(HasSubstr("loopback without TLS")));
  EXPECT_FALSE(Contexts().Find("localhost")->tls);
  EXPECT_EQ(RunBare({"info"}).code, 0);
}

TEST_F(LoginTest, AgainReplacesTheTokenButNoOtherServersContext) {
  ASSERT_EQ(Login().code, 0);
  data().authorization = "Bearer " + Token('t');
  answers_ = {"yes", Token('t')};
  ASSERT_EQ(RunBare({"login", Server()}).code, 0);
  EXPECT_EQ(Contexts().Find("127.0.0.1")->token, Token('t'));
  Context other = Contexts().Find("127.0.0.1").value();
  other.server = "127.0.0.1:1";
  ASSERT_TRUE(Contexts().Save(other).ok());
  EXPECT_THAT(Login(), Fails(2, HasSubstr("Choose another name with --name")));
}

TEST_F(LoginTest, WhatIsNoPort) {
  for (const char* server : {"studio", "/run/mpsd.sock", "ssh://studio"}) {
    EXPECT_THAT(RunBare({"login", server}),
                Fails(2, HasSubstr("need no login")))
        << server;
  }
  EXPECT_EQ(RunBare({"login", Server(), "--name", "../x"}).code, 2);
  EXPECT_EQ(RunBare({"login", Server(), "--name", "local"}).code, 2);
  daemon_->Stop();
  EXPECT_THAT(RunBare({"login", Server()}),
              Fails(3, HasSubstr("Connection refused")));
}

TEST_F(LoginTest, AFolderOfContextsThatIsOpenToOthers) {
  ASSERT_EQ(Login().code, 0);
  std::filesystem::permissions(ContextStore::DefaultFolder(),
                               std::filesystem::perms(0755));
  EXPECT_THAT(RunBare({"info"}), Fails(2, HasSubstr("chmod 700")));
  // Verbs that need no context still work.
  EXPECT_EQ(RunBare({"completion", "bash"}).code, 0);
}

using LogoutTest = PortClientTest;

TEST_F(LogoutTest, ForgetsTheCurrentContextAndItsToken) {
  ASSERT_EQ(Login().code, 0);
  const std::string file = Contexts().FileOf("127.0.0.1").string();
  ASSERT_TRUE(std::filesystem::exists(file));
  EXPECT_THAT(RunBare({"logout"}),
              Prints(HasSubstr("Removed the context 127.0.0.1")));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(Contexts().Current().value(), "");
  EXPECT_THAT(RunBare({"logout"}),
              Fails(2, HasSubstr("there is no current context")));
}

TEST_F(LogoutTest, ByName) {
  ASSERT_EQ(Login({"--name", "a"}).code, 0);
  ASSERT_EQ(Login({"--name", "b"}).code, 0);
  EXPECT_EQ(RunBare({"logout", "a"}).code, 0);
  EXPECT_EQ(Contexts().Current().value(), "b");
  EXPECT_EQ(RunBare({"logout", "a"}).code, 4);
  EXPECT_EQ(RunBare({"logout", "../b"}).code, 2);
}

TEST_F(LogoutTest, ABrokenFile) {
  ASSERT_EQ(Login().code, 0);
  std::ofstream(Contexts().FileOf("127.0.0.1")) << "{";
  EXPECT_THAT(RunBare({"info"}),
              Fails(2, HasSubstr("`mpsctl logout 127.0.0.1` removes it")));
  EXPECT_EQ(RunBare({"logout", "127.0.0.1"}).code, 0);
  EXPECT_THAT(Contexts().Names().value(), IsEmpty());
}

using ContextVerbTest = PortClientTest;

TEST_F(ContextVerbTest, ListMarksTheCurrentOne) {
  EXPECT_EQ(RunBare({"context", "list"}).out,
            "CURRENT  NAME   USER  SERVER\n"
            "*        local        this machine's own daemon\n");
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  EXPECT_EQ(BareOut({"context", "list"}),
            "CURRENT  NAME    USER  SERVER\n"
            "         local         this machine's own daemon\n"
            "*        studio  ann   " +
                Server() + "\n");
  EXPECT_EQ(RunBare({"context", "list", "--quiet"}).out, "local\nstudio\n");
  const auto json = ParseJson(RunBare({"--json", "context", "list"}).out);
  EXPECT_EQ(json["name"], "studio");
  EXPECT_EQ(json["has_token"], true);
  EXPECT_EQ(json["is_current"], true);
  std::ofstream(Contexts().FileOf("studio")) << "{";
  EXPECT_THAT(RunBare({"context", "list"}).out, HasSubstr("broken: "));
  EXPECT_NE(ParseJson(RunBare({"--json", "context", "list"}).out)["error"], "");
}

TEST_F(ContextVerbTest, UseChoosesWhereVerbsGo) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  EXPECT_EQ(BareOut({"context", "use", "local"}),
            "mpsctl goes to this machine's own daemon now.\n");
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

TEST_F(ContextVerbTest, ShowHasNoSecretAndRemoveForgets) {
  EXPECT_THAT(RunBare({"context", "show"}).out, HasSubstr("local"));
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  for (const Args& args : {Args{"context", "show"},
                           {"context", "show", "studio"},
                           {"context", "show", "studio", "--json"}}) {
    EXPECT_THAT(BareOut(args),
                AllOf(HasSubstr(Server()), Not(HasSubstr(Token()))));
  }
  EXPECT_THAT(RunBare({"context", "show"}).out,
              HasSubstr("authority    " + FingerprintOf(authority_.pem())));
  EXPECT_EQ(RunBare({"context", "show", "attic"}).code, 4);
  EXPECT_EQ(RunBare({"context", "remove", "studio"}).code, 0);
  EXPECT_EQ(RunBare({"context", "list", "--quiet"}).out, "local\n");
  EXPECT_EQ(RunBare({"context", "remove", "studio"}).code, 4);
  EXPECT_EQ(RunBare({"context", "remove"}).code, 2);
  EXPECT_EQ(RunBare({"context"}).code, 2);
}

// 2026-01-02 03:04:05 UTC.
constexpr int64_t kNowSeconds = 1767323045;
const absl::Time kToday = absl::FromUnixSeconds(kNowSeconds);

class TokenTextTest : public ClientTest {
 protected:
  static v1::Token Token(const std::string& id) {
    v1::Token token;
    token.set_id(id);
    token.set_user("ann");
    token.set_role(v1::ROLE_USER);
    token.set_created_by("root");
    token.mutable_create_time()->set_seconds(kNowSeconds - 3600);
    return token;
  }
};

TEST_F(TokenTextTest, TheSecretAloneIsTheOutput) {
  v1::CreateTokenResponse made;
  made.set_secret("mpsd_secret");
  *made.mutable_token() = Token("0a1b2c3d4e5f");
  made.mutable_token()->mutable_expire_time()->set_seconds(kNowSeconds +
                                                           90 * 86400 - 1);
  PrintCreated(TestConsole(), made);
  EXPECT_EQ(out_.str(), "mpsd_secret\n");
  EXPECT_EQ(err_.str(),
            "Made token 0a1b2c3d4e5f of ann, with the role user. It expires on "
            "2026-04-02 03:04, in 90 days.\n"
            "It cannot be shown again: mpsd keeps only its SHA-256. Send it to "
            "ann securely;\n"
            "it is typed or piped into\n"
            "  mpsctl login HOST:PORT\n"
            "Revoke a token that others may have seen:\n"
            "  mpsctl admin token revoke 0a1b2c3d4e5f\n");
}

TEST_F(TokenTextTest, TheListShowsWhoseUntilWhenAndTheLastUse) {
  v1::ListTokensResponse list;
  *list.add_tokens() = Token("000000000001");
  list.mutable_tokens(0)->mutable_expire_time()->set_seconds(kNowSeconds +
                                                             86400 + 1);
  list.mutable_tokens(0)->mutable_last_use_time()->set_seconds(kNowSeconds - 5);
  list.mutable_tokens(0)->set_note("laptop");
  *list.add_tokens() = Token("000000000002");
  list.mutable_tokens(1)->mutable_expire_time()->set_seconds(kNowSeconds +
                                                             7200);
  *list.add_tokens() = Token("000000000003");
  list.mutable_tokens(2)->mutable_expire_time()->set_seconds(kNowSeconds);
  list.mutable_tokens(2)->set_role(v1::ROLE_ADMIN);
  *list.add_tokens() = Token("000000000004");
  list.mutable_tokens(3)->clear_created_by();
  PrintTokens(TestConsole(), list);
  EXPECT_EQ(out_.str(),
            "ID            USER  ROLE   CREATED           BY    "
            "EXPIRES                    LAST USE          NOTE\n"
            "000000000001  ann   user   2026-01-02 02:04  root  "
            "2026-01-03 03:04 (24h01m)  2026-01-02 03:04  laptop\n"
            "000000000002  ann   user   2026-01-02 02:04  root  "
            "2026-01-02 05:04 (2h00m)   never             \n"
            "000000000003  ann   admin  2026-01-02 02:04  root  "
            "2026-01-02 03:04 EXPIRED   never             \n"
            "000000000004  ann   user   2026-01-02 02:04  -     "
            "never                      never             \n");
  EXPECT_EQ(err_.str(), "");
}

// A daemon may be of another version, or no mpsd at all.
TEST_F(TokenTextTest, WhatADaemonSaysCannotSteerTheTerminal) {
  v1::CreateTokenResponse made;
  v1::Token token = Token("\x1b[2J");
  token.set_user("\x1b]0;x\x07");
  token.set_note("two\nlines\x1b[1m");
  token.set_role(static_cast<v1::Role>(99));
  *made.mutable_token() = token;
  made.set_secret("\x1b[31m");
  const Console console = TestConsole();
  PrintCreated(console, made);
  v1::ListTokensResponse list;
  *list.add_tokens() = token;
  PrintTokens(console, list);
  PrintRevoked(console, "0a1b2c3d4e5f", {});
  EXPECT_THAT(out_.str() + err_.str(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(out_.str() + err_.str(), Not(HasSubstr("\x07")));
}

absl::StatusOr<std::optional<absl::Time>> Parse(
    const std::string& text, absl::TimeZone zone = absl::UTCTimeZone()) {
  return ParseExpiry(text, kToday, zone);
}

TEST(ExpiryTest, ASpanADayOrNever) {
  EXPECT_EQ(**Parse("90d"), kToday + absl::Hours(90 * 24));
  EXPECT_EQ(**Parse("12h"), kToday + absl::Hours(12));
  EXPECT_EQ(**Parse("2w"), kToday + absl::Hours(14 * 24));
  EXPECT_EQ(**Parse("1h"), kToday + absl::Hours(1));
  EXPECT_EQ(**Parse("36500d"), kToday + absl::Hours(36500 * 24));
  EXPECT_EQ(**Parse("2026-01-02"), absl::FromUnixSeconds(1767398400));
  EXPECT_EQ(**Parse("2027-01-31"),
            absl::FromCivil(absl::CivilDay(2027, 2, 1), absl::UTCTimeZone()));
  // In Kiritimati the day has begun fourteen hours earlier.
  const absl::TimeZone zone = absl::FixedTimeZone(14 * 3600);
  EXPECT_EQ(**Parse("2027-01-31", zone),
            **Parse("2027-01-31") - absl::Hours(14));
  EXPECT_EQ(*Parse("never"), std::nullopt);
}

TEST(ExpiryTest, WhatIsNoTimeIsRefusedWithWhatIs) {
  Args bad = {"99999999999999999999d", "٩٠d"};
  for (const char* text :
       {"",           "d",          "90",         "90 d",
        " 90d",       "90D",        "-1d",        "+1d",
        "0d",         "0h",         "1.5d",       "90m",
        "90s",        "90days",     "1e3d",       "0x9d",
        "tomorrow",   "Never",      "2027-1-31",  "2027-02-30",
        "2027-13-01", "2027/01/31", "31-01-2027", "2027-01-31T12:00",
        "\x1b[2J"}) {
    bad.push_back(text);
  }
  for (const std::string& text : bad) {
    const auto parsed = Parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()),
                AllOf(HasSubstr("90d, 12h or 2w"), Not(HasSubstr("\x1b"))))
        << text;
  }
}

TEST(ExpiryTest, WhatIsOverAndWhatIsTooFarIsRefused) {
  EXPECT_THAT(std::string(Parse("2026-01-01").status().message()),
              HasSubstr("is over"));
  for (const char* text :
       {"36501d", "876001h", "9223372036854775807d", "9223372036854775807w"}) {
    EXPECT_THAT(std::string(Parse(text).status().message()),
                HasSubstr("use never instead"))
        << text;
  }
}

using TokenTest = ClientTest;

TEST_F(TokenTest, CreateAsksAndPrintsTheSecretAlone) {
  EXPECT_THAT(RunVerb({"admin", "token", "create", "--user", "ann", "--role",
                       "user", "--expires", "12h", "--note", "laptop"}),
              Ends(0, "mpsd_secret\n",
                   HasSubstr("mpsctl admin token revoke 0a1b2c3d4e5f")));
  const v1::CreateTokenRequest& asked = Only(data().tokens_asked);
  EXPECT_EQ(asked.user(), "ann");
  EXPECT_EQ(asked.role(), v1::ROLE_USER);
  EXPECT_EQ(asked.note(), "laptop");
  EXPECT_EQ(asked.expire_time().seconds(),
            absl::ToUnixSeconds(kToday + absl::Hours(12)));
}

TEST_F(TokenTest, ATokenLivesNinetyDaysUnlessAsked) {
  RunVerb({"admin", "token", "create", "--user", "ann", "--role", "viewer"});
  RunVerb({"admin", "token", "create", "--user", "ann", "--role", "admin",
           "--expires", "never"});
  ASSERT_THAT(data().tokens_asked, SizeIs(2));
  EXPECT_EQ(data().tokens_asked[0].role(), v1::ROLE_VIEWER);
  EXPECT_EQ(data().tokens_asked[0].note(), "");
  EXPECT_EQ(data().tokens_asked[0].expire_time().seconds(),
            absl::ToUnixSeconds(kToday + absl::Hours(24 * 90)));
  EXPECT_EQ(data().tokens_asked[1].role(), v1::ROLE_ADMIN);
  EXPECT_FALSE(data().tokens_asked[1].has_expire_time());
  EXPECT_THAT(RunVerb({"admin", "token", "create", "--user", "a", "--role",
                       "user", "--expires", "x"})
                  .err,
              HasSubstr("--expires: 'x' is not a time"));
}

TEST_F(TokenTest, JsonMayBeAskedForAfterTheVerb) {
  const Result made = RunVerb(
      {"admin", "token", "create", "--user", "a", "--role", "admin", "--json"});
  EXPECT_EQ(ParseJson(made.out)["secret"], "mpsd_secret");
  const Result list = RunVerb({"admin", "token", "list", "--json"});
  EXPECT_EQ(ParseJson(list.out)["id"], "0a1b2c3d4e5f");
}

TEST_F(TokenTest, WhatIsWrongIsNotAsked) {
  for (const Args& args : std::vector<std::vector<std::string>>{
           {"admin", "token"},
           {"admin", "token", "create"},
           {"admin", "token", "create", "--user", "a"},
           {"admin", "token", "create", "--role", "user"},
           {"admin", "token", "create", "--user", "a", "--role", "god"},
           {"admin", "token", "create", "--user", "a", "--role", ""},
           {"admin", "token", "create", "--user", "a", "--role", "Admin"},
           {"admin", "token", "create", "--user", "a", "--role", "unspecified"},
           {"admin", "token", "create", "--user", "a", "--role", "3"},
           {"admin", "token", "create", "--user", "a", "--role", "user",
            "--expires", "soon"},
           {"admin", "token", "revoke"},
           {"admin", "token", "list", "more"},
           {"admin", "token", "lend"}}) {
    EXPECT_THAT(RunVerb(args), Ends(2, IsEmpty()));
  }
  EXPECT_THAT(data().tokens_asked, IsEmpty());
}

TEST_F(TokenTest, ListAndRevoke) {
  RunVerb({"admin", "token", "create", "--user", "ann", "--role", "user"});
  EXPECT_THAT(RunVerb({"admin", "token", "list"}).out,
              HasSubstr("0a1b2c3d4e5f  ann   user"));
  EXPECT_THAT(
      RunVerb({"admin", "token", "revoke", "0a1b2c3d4e5f"}),
      Prints("Token 0a1b2c3d4e5f is revoked; 2 open streams of it ended.\n"));
  EXPECT_THAT(
      RunVerb({"admin", "token", "revoke", "0a1b2c3d4e5f", "ffffffffffff"}),
      Fails(4, AllOf(HasSubstr("mpsctl admin token list"),
                     Not(HasSubstr("jobs")))));
}

TEST_F(TokenTest, ATokenGivenForItsIdLeavesNoTrace) {
  EXPECT_THAT(
      RunVerb({"admin", "token", "revoke", "mpsd_secret"}),
      Fails(2, AllOf(HasSubstr("not its id"), Not(HasSubstr("mpsd_secret")))));
  Fail("CreateToken", StatusCode::PERMISSION_DENIED, "needs the role admin");
  EXPECT_THAT(
      RunVerb({"admin", "token", "create", "--user", "a", "--role", "admin"}),
      Ends(testing::Ne(0), IsEmpty(), HasSubstr("needs the role admin")));
}

}  // namespace
}  // namespace mpsd::client
