// SPDX-License-Identifier: Apache-2.0
#include "client/refusal.h"

#include "tests/client/port_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

// What a verb says after a login, once something has changed.
class RefusalTest : public PortClientTest {
 protected:
  // Logs in and then serves on the same port with other credentials.
  Result AfterLogin(std::shared_ptr<grpc::ServerCredentials> credentials) {
    EXPECT_EQ(Login({"--name", "studio"}).code, 0);
    Serve(std::move(credentials));
    Context context = Contexts().Find("studio").value();
    context.server = Server();
    EXPECT_TRUE(Contexts().Save(context).ok());
    return RunBare({"list"});
  }
};

TEST_F(RefusalTest, AnotherAuthority) {
  const TestAuthority another(folder_ / "another");
  const Result result =
      AfterLogin(TlsServer(another.Issue("IP:127.0.0.1"), another.pem()));
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err,
              HasSubstr("is not of the authority that the context studio "
                        "trusts: its fingerprint is " +
                        FingerprintOf(another.pem()) + ", expected " +
                        FingerprintOf(authority_.pem())));
  EXPECT_THAT(result.err, HasSubstr("somebody is between you and mpsd"));
  EXPECT_TRUE(data().authorizations.empty());
}

TEST_F(RefusalTest, AnExpiredCertificate) {
  const Result result = AfterLogin(
      TlsServer(authority_.Issue("IP:127.0.0.1", -1), authority_.pem()));
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("expired on "));
}

TEST_F(RefusalTest, AnotherName) {
  const Result result =
      AfterLogin(TlsServer(authority_.Issue("DNS:attic"), authority_.pem()));
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("is not for '127.0.0.1', but for attic"));
}

TEST_F(RefusalTest, AServerThatSpeaksTlsNoMore) {
  const Result result =
      AfterLogin(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("does not speak TLS 1.3"));
}

TEST_F(RefusalTest, ATokenThatWasRevoked) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  data().authorization = "Bearer another";
  const Result result = RunBare({"list"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("The token of the context studio has "
                                    "expired or was revoked"));
  EXPECT_THAT(result.err,
              HasSubstr("`mpsctl login " + Server() + " --name studio`"));
}

TEST_F(RefusalTest, AStreamWhoseTokenIsRevokedIsNotTriedAgain) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_RUNNING);
  data().fail["Watch"] =
      grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "the token was revoked");
  const Result result = RunBare({"watch", kId});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("the token was revoked"));
  EXPECT_THAT(result.err, HasSubstr("ask an admin for a new one"));
  EXPECT_EQ(data().watched.size(), 1);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(RefusalTest, ARoleThatMayNot) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  data().fail["List"] =
      grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "needs the role admin");
  const Result result = RunBare({"list"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("needs the role admin"));
  EXPECT_THAT(result.err, HasSubstr("`mpsctl info` shows who you are"));
}

TEST_F(RefusalTest, NoLoginYet) {
  // The port of a daemon with TLS on this machine, taken for one without.
  const Result tls = RunBare({"--server", Server(), "list"});
  EXPECT_EQ(tls.code, 8);
  EXPECT_THAT(tls.err, HasSubstr("speaks TLS"));
  EXPECT_THAT(tls.err, HasSubstr("Log in first: `mpsctl login " + Server()));
  Serve(grpc::experimental::LocalServerCredentials(LOCAL_TCP));
  const Result tokenless = RunBare({"--server", Server(), "list"});
  EXPECT_EQ(tokenless.code, 8);
  EXPECT_THAT(tokenless.err, HasSubstr("Log in first"));
}

TEST_F(RefusalTest, NobodyThereAnyMore) {
  ASSERT_EQ(Login({"--name", "studio"}).code, 0);
  daemon_->Stop();
  const Result result = RunBare({"list"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("Connection refused"));
  EXPECT_THAT(result.err, HasSubstr("--listen"));
}

TEST_F(RefusalTest, ASocketHasNone) {
  EXPECT_FALSE(WhyUnreachable(SocketAddress(), absl::Now()).has_value());
  EXPECT_EQ(HowToBeLetIn(SocketAddress(), grpc::StatusCode::UNAUTHENTICATED),
            "");
}

}  // namespace
}  // namespace mpsd::client
