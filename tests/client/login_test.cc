// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

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
                 HasSubstr("(29 days)")),
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
  Serve(TlsServer(
      {TextOfFile(folder_ / "self.crt"), TextOfFile(folder_ / "self.key")}));
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
  // Verbs that need no context go on.
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

TEST_F(ContextVerbTest, ShowTellsNoSecretAndRemoveForgets) {
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

}  // namespace
}  // namespace mpsd::client
