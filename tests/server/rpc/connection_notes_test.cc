// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/connection_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/rpc/fake_tokens.h"

namespace mpsd::rpc {
namespace {

using access::Caller;
using access::Role;
using access::Way;
using testing::HasSubstr;

// A connection's notes in memory.
class FakeConnection final : public grpc::AuthContext {
 public:
  bool IsPeerAuthenticated() const override { return false; }
  std::vector<grpc::string_ref> GetPeerIdentity() const override { return {}; }
  std::string GetPeerIdentityPropertyName() const override { return ""; }
  std::vector<grpc::string_ref> FindPropertyValues(
      const std::string& name) const override {
    std::vector<grpc::string_ref> values;
    for (const auto& [key, value] : properties_) {
      if (key == name) values.push_back(value);
    }
    return values;
  }
  grpc::AuthPropertyIterator begin() const override { return Nothing(); }
  grpc::AuthPropertyIterator end() const override { return Nothing(); }
  void AddProperty(const std::string& key,
                   const grpc::string_ref& value) override {
    properties_.emplace_back(key, std::string(value.data(), value.size()));
  }
  bool SetPeerIdentityPropertyName(const std::string&) override {
    return false;
  }
  size_t size() const { return properties_.size(); }

 private:
  struct Nothing : grpc::AuthPropertyIterator {};
  std::list<std::pair<std::string, std::string>> properties_;
};

class ConnectionNotesTest : public testing::Test {
 protected:
  ConnectionNotesTest() {
    tokens_.Put("good", "eve", Role::kViewer);
    known_.tokens = &tokens_;
    known_.roles = {501, {"ada"}, {"guest"}};
  }
  std::string Fault(const FakeConnection& connection,
                    const Metadata& metadata = {}) {
    const absl::Status status = CallerOf(connection, metadata, known_).status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    return std::string(status.message());
  }

  FakeTokens tokens_;
  KnownCallers known_;
};

TEST_F(ConnectionNotesTest, AnAccountIsKnown) {
  for (const auto& [uid, user, role] :
       {std::tuple{501u, "me", Role::kAdmin},
        std::tuple{0u, "root", Role::kAdmin},
        std::tuple{502u, "ada", Role::kAdmin},
        std::tuple{503u, "guest", Role::kViewer},
        std::tuple{504u, "bob", Role::kUser}}) {
    FakeConnection connection;
    NoteAccount(uid, user, connection);
    const auto caller = CallerOf(connection, {}, known_);
    ASSERT_TRUE(caller.ok()) << caller.status();
    EXPECT_EQ(*caller, (Caller{user, role, Way::kSocket,
                               "uid " + std::to_string(uid), ""}));
  }
}

TEST_F(ConnectionNotesTest, ANoteIsWrittenOnce) {
  FakeConnection connection;
  NoteAccount(504, "bob", connection);
  NoteAccount(0, "root", connection);
  EXPECT_EQ(CallerOf(connection, {}, known_)->user, "bob");
  EXPECT_EQ(connection.size(), 2u);
}

TEST_F(ConnectionNotesTest, MetadataMakesNobodyAnybody) {
  const Metadata lies = {
      {"mpsd-uid", "0"}, {"mpsd-user", "root"}, {"x509_common_name", "ada"}};
  EXPECT_THAT(Fault(FakeConnection(), lies), HasSubstr("no token came"));
  FakeConnection bobs;
  NoteAccount(504, "bob", bobs);
  EXPECT_EQ(CallerOf(bobs, lies, known_)->user, "bob");
  // Not even by a token: the kernel's word comes first.
  EXPECT_EQ(CallerOf(bobs, {{"authorization", "Bearer good"}}, known_)->user,
            "bob");
}

TEST_F(ConnectionNotesTest, ATokenIsKnownUntilItIsRevoked) {
  const Metadata metadata = {{"authorization", "Bearer good"}};
  const FakeConnection connection;
  EXPECT_EQ(
      *CallerOf(connection, metadata, known_),
      (Caller{"eve", Role::kViewer, Way::kToken, "token 0a1b2c3d4e5f", ""}));
  tokens_.Revoke("good");
  EXPECT_THAT(Fault(connection, metadata), HasSubstr("mpsctl login"));
  known_.tokens = nullptr;
  EXPECT_THAT(Fault(connection, metadata), HasSubstr("is not known"));
}

}  // namespace
}  // namespace mpsd::rpc
