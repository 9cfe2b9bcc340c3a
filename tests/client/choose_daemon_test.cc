// SPDX-License-Identifier: Apache-2.0
#include "client/choose_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "core/base/api_token.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Token(char secret) {
  return base::ApiToken(std::string(base::kApiTokenSecretBytes, secret));
}

class ChooseDaemonTest : public testing::Test {
 protected:
  ChooseDaemonTest() {
    std::string name = testing::TempDir() + "chooseXXXXXX";
    folder_ = mkdtemp(name.data());
    ClearEnvironment();
    setenv("HOME", "/srv/ann", 1);
    roots_ = folder_ / "roots.pem";
    std::ofstream(roots_) << "the system's roots";
    setenv("SSL_CERT_FILE", roots_.c_str(), 1);
  }
  ~ChooseDaemonTest() override {
    ClearEnvironment();
    unsetenv("SSL_CERT_FILE");
    fs::remove_all(folder_);
  }
  static void ClearEnvironment() {
    for (const char* name :
         {"MPSD_SERVER", "MPSD_CONTEXT", "MPSD_STATE_DIR", "MPSD_TOKEN"}) {
      unsetenv(name);
    }
  }

  void Login(const std::string& name, const std::string& server,
             const std::string& token, bool tls = true) {
    Context context;
    context.name = name;
    context.server = server;
    context.tls = tls;
    context.ca_pem = tls ? "CA of " + name : "";
    context.token = token;
    ASSERT_TRUE(contexts().Save(context).ok());
  }
  ContextStore contexts() const { return ContextStore(folder_ / "contexts"); }
  absl::StatusOr<Address> Choose(const DaemonChoice& choice) const {
    return ChooseDaemon(choice, contexts());
  }
  std::string Target(const DaemonChoice& choice) const {
    const auto address = Choose(choice);
    return address.ok() ? address->target : address.status().ToString();
  }

  fs::path folder_, roots_;
};

TEST_F(ChooseDaemonTest, EachSourceGivesWayToTheOneBefore) {
  Login("current", "current:1", Token('a'));
  Login("named", "named:1", Token('b'));
  Login("environment", "environment:1", Token('c'));
#ifndef __APPLE__
  EXPECT_EQ(Target({}), "unix:/srv/ann/.local/state/mpsd/mpsd.sock");
#endif
  ASSERT_TRUE(contexts().Use("current").ok());
  EXPECT_EQ(Target({}), "current:1");
  setenv("MPSD_STATE_DIR", "/state", 1);
  EXPECT_EQ(Target({}), "unix:/state/mpsd.sock");
  setenv("MPSD_CONTEXT", "environment", 1);
  EXPECT_EQ(Target({}), "environment:1");
  setenv("MPSD_SERVER", "other:1", 1);
  EXPECT_EQ(Target({}), "other:1");
  EXPECT_EQ(Target({"", "", "/given"}), "unix:/given/mpsd.sock");
  EXPECT_EQ(Target({"", "named", "/given"}), "named:1");
  EXPECT_EQ(Target({"first:1", "named", "/given"}), "first:1");
}

TEST_F(ChooseDaemonTest, LocalIsThisMachinesOwnDaemon) {
  Login("studio", "studio:1", Token('a'));
  ASSERT_TRUE(contexts().Use("studio").ok());
  const auto address = Choose({"", "local", ""});
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->target, "unix:" + DefaultStateDir() + "/mpsd.sock");
  EXPECT_EQ(address->credentials.token, "");
}

TEST_F(ChooseDaemonTest, AContextBringsItsCredentials) {
  Login("studio", "studio:7433", Token('a'));
  for (const DaemonChoice& choice :
       {DaemonChoice{"", "studio", ""}, DaemonChoice{"studio:7433", "", ""}}) {
    const auto address = Choose(choice);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_TRUE(address->credentials.tls);
    EXPECT_EQ(address->credentials.roots_pem, "CA of studio");
    EXPECT_EQ(address->credentials.token, Token('a'));
    EXPECT_EQ(address->credentials.context, "studio");
  }
  // Another port is another daemon.
  EXPECT_EQ(Choose({"studio:7434", "", ""})->credentials.token, "");
}

TEST_F(ChooseDaemonTest, OfSeveralContextsAtAServerTheCurrentOne) {
  Login("ann", "studio:7433", Token('a'));
  Login("ben", "studio:7433", Token('b'));
  const absl::Status status = Choose({"studio:7433", "", ""}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ann, ben; name one with --context"));
  ASSERT_TRUE(contexts().Use("ben").ok());
  EXPECT_EQ(Choose({"studio:7433", "", ""})->credentials.token, Token('b'));
}

TEST_F(ChooseDaemonTest, TheEnvironmentsTokenIsForServersWithoutAContext) {
  Login("studio", "studio:7433", Token('a'));
  setenv("MPSD_TOKEN", Token('e').c_str(), 1);
  const auto other = Choose({"ci:7433", "", ""});
  EXPECT_EQ(other->credentials.token, Token('e'));
  EXPECT_TRUE(other->credentials.tls);
  EXPECT_EQ(other->credentials.roots_pem, "the system's roots");
  EXPECT_EQ(Choose({"studio:7433", "", ""})->credentials.token, Token('a'));
  EXPECT_EQ(Choose({"/run/mpsd.sock", "", ""})->credentials.token, "");
  setenv("MPSD_TOKEN", (Token('e') + "\nx: y").c_str(), 1);
  const absl::Status status = Choose({"ci:7433", "", ""}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("MPSD_TOKEN: "));
  EXPECT_EQ(status.message().find(Token('e')), std::string::npos);
}

TEST_F(ChooseDaemonTest, OnlyLoopbackDoesWithoutTls) {
  for (const char* server : {"localhost:1", "127.0.0.1:1", "[::1]:1"}) {
    EXPECT_FALSE(Choose({server, "", ""})->credentials.tls) << server;
  }
  for (const char* server : {"studio:1", "10.0.0.1:1", "[fe80::1]:1"}) {
    EXPECT_TRUE(Choose({server, "", ""})->credentials.tls) << server;
  }
}

TEST_F(ChooseDaemonTest, WhatIsNoAddress) {
  for (const char* server : {"studio", "studio:x", "dns:///studio:1"}) {
    EXPECT_EQ(Choose({server, "", ""}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << server;
  }
  EXPECT_TRUE(absl::IsNotFound(Choose({"", "absent", ""}).status()));
}

TEST_F(ChooseDaemonTest, ABrokenContextStopsOnlyWhoNamesIt) {
  Login("studio", "studio:7433", Token('a'));
  Login("broken", "broken:7433", Token('b'));
  std::ofstream(folder_ / "contexts" / "broken.json") << "{";
  EXPECT_EQ(Target({"studio:7433", "", ""}), "studio:7433");
  EXPECT_THAT(Target({"", "broken", ""}), HasSubstr("broken.json"));
}

TEST_F(ChooseDaemonTest, ACurrentContextThatIsGoneIsNoReasonForAnotherDaemon) {
  Login("studio", "studio:7433", Token('a'));
  ASSERT_TRUE(contexts().Use("studio").ok());
  fs::remove(folder_ / "contexts" / "studio.json");
  EXPECT_TRUE(absl::IsNotFound(Choose({}).status()));
}

}  // namespace
}  // namespace mpsd::client
