// SPDX-License-Identifier: Apache-2.0
// Tokens, and the audit: its words and its lists.
#include "server/rpc/access_calls.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/api_token.h"
#include "core/base/limits.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

constexpr int64_t kNow = 1767225600;  // of the fake clock
constexpr int64_t kLater = kNow + 60;

class AccessCallsTest : public testing::Test {
 protected:
  // A token for "ann", or as `more` says.
  absl::StatusOr<v1::CreateTokenResponse> Create(const std::string& more = "") {
    auto request =
        Parsed<v1::CreateTokenRequest>("user: 'ann' role: ROLE_USER");
    request.MergeFrom(Parsed<v1::CreateTokenRequest>(more));
    return Create(request);
  }
  absl::StatusOr<v1::CreateTokenResponse> Create(
      const v1::CreateTokenRequest& request) {
    return daemon_.admin().Call(&Access::CreateToken, request);
  }
  static absl::StatusOr<v1::RevokeTokenResponse> Revoke(const Api& by,
                                                        const std::string& id) {
    return by.Call(&Access::RevokeToken, ById<v1::RevokeTokenRequest>(id));
  }
  std::vector<std::string> UsersListedFor(const Api& by) {
    std::vector<std::string> users;
    const auto answer = Ok(by.Call(&Access::ListTokens));
    for (const auto& token : answer.tokens()) {
      users.push_back(token.user());
    }
    return users;
  }
  Api With(const v1::CreateTokenResponse& made) const {
    return Api(daemon_.Stranger().channel(), made.secret());
  }

  InProcessDaemon daemon_;
};

TEST_F(AccessCallsTest, TheSecretIsReturnedOnceAndTheRestIsKept) {
  const v1::CreateTokenResponse made = Ok(Create(absl::StrCat(
      "role: ROLE_VIEWER note: 'laptop' expire_time { seconds: ", kLater,
      " }")));
  EXPECT_TRUE(base::IsApiToken(made.secret()));
  EXPECT_EQ(made.token().id().size(), 12u);
  v1::Token token = made.token();
  token.clear_id();
  EXPECT_THAT(token,
              EqualsProto(absl::StrCat(
                  "user: 'ann' role: ROLE_VIEWER note: 'laptop' created_by: '",
                  *access::AccountName(geteuid()), "' create_time { seconds: ",
                  kNow, " } expire_time { seconds: ", kLater, " }")));
  const v1::ListTokensResponse listed =
      Ok(daemon_.admin().Call(&Access::ListTokens));
  ASSERT_THAT(listed.tokens(), SizeIs(1));
  EXPECT_EQ(listed.tokens(0).SerializeAsString(),
            made.token().SerializeAsString());
  EXPECT_THAT(listed.SerializeAsString(), Not(HasSubstr(made.secret())));
  EXPECT_FALSE(Ok(Create()).token().has_expire_time());
}

TEST_F(AccessCallsTest, NoCallerMakesATokenAboveTheOwnRole) {
  const access::Caller eve{"eve", Role::kViewer, access::Way::kSocket, "", ""};
  for (const v1::Role role : {v1::ROLE_USER, v1::ROLE_ADMIN}) {
    v1::CreateTokenRequest request;
    request.set_user("eve");
    request.set_role(role);
    v1::CreateTokenResponse response;
    EXPECT_THAT(CreateToken(*daemon_.tokens, eve, request, response),
                Fails(StatusCode::kPermissionDenied, "yours is viewer"));
  }
  EXPECT_THAT(daemon_.tokens->List(), IsEmpty());
}

TEST_F(AccessCallsTest, AHostileNameIsRefusedInWordsThatHarmNoTerminal) {
  v1::CreateTokenRequest request;
  request.set_role(v1::ROLE_USER);
  for (const std::string& user :
       {std::string(), std::string("a b"), std::string("-rf"),
        std::string("ann\nroot"), std::string("\x1b[2Jann"),
        std::string("ann\0root", 8), std::string("\u202enna"),
        std::string("../ann"), std::string("'; DROP TABLE tokens; --"),
        std::string(limits::kUserBytes + 1, 'a'), std::string(4000, 'a')}) {
    request.set_user(user);
    const absl::Status refused = Create(request).status();
    EXPECT_THAT(refused,
                Fails(StatusCode::kInvalidArgument, StartsWith("user: '")));
    EXPECT_LT(refused.message().size(), 300u);
    EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("\x1b")));
  }
  request.set_user(std::string(limits::kUserBytes, 'a'));
  EXPECT_THAT(Create(request), IsOk());
}

TEST_F(AccessCallsTest, NoteRoleAndExpiryAreChecked) {
  const auto expiring = [](int64_t seconds, int nanos = 0) {
    return absl::StrCat("expire_time { seconds: ", seconds, " nanos: ", nanos,
                        " }");
  };
  constexpr int64_t kLast = 253'402'300'799;  // of the year 9999
  const std::pair<std::string, const char*> cases[] = {
      {absl::StrCat("note: '", std::string(257, 'n'), "'"),
       "note: has 257 bytes, at most 256"},
      {"note: 'two\\nlines'", "note: 'two\\nlines'"},
      {expiring(kNow), "expire_time: 2026-01-01T00:00:00+00:00 is over"},
      {expiring(0), "expire_time: 1970"},
      {expiring(-1), "expire_time: must be a time"},
      {expiring(kLast + 1), "expire_time: must be a time"},
      {expiring(INT64_MAX), "expire_time: must be a time"},
      {expiring(INT64_MIN), "expire_time: must be a time"},
      {expiring(kLast, -1), "expire_time: must be a time"},
      {expiring(kLast, 1'000'000'000), "expire_time: must be a time"}};
  for (const auto& [more, words] : cases) {
    EXPECT_THAT(Create(more),
                Fails(StatusCode::kInvalidArgument, StartsWith(words)));
  }
  for (const int role : {0, 4, -1}) {
    v1::CreateTokenRequest request;
    request.set_user("ann");
    request.set_role(static_cast<v1::Role>(role));
    EXPECT_THAT(Create(request), Fails(StatusCode::kInvalidArgument,
                                       StartsWith("role: must be")));
  }
  EXPECT_THAT(daemon_.tokens->List(), IsEmpty());
  EXPECT_EQ(Ok(Create(absl::StrCat("note: '", std::string(256, 'n'), "' ",
                                   expiring(kLast, 999'999'999))))
                .token()
                .expire_time()
                .seconds(),
            kLast);
}

TEST_F(AccessCallsTest, AdminsSeeAndRevokeAllTokensAndOthersTheirOwn) {
  const v1::CreateTokenResponse anns = Ok(Create()),
                                bobs = Ok(Create("user: 'bob'")),
                                anns_admin = Ok(Create("role: ROLE_ADMIN"));
  EXPECT_THAT(UsersListedFor(daemon_.admin()),
              ElementsAre("ann", "bob", "ann"));
  EXPECT_THAT(UsersListedFor(With(anns)), ElementsAre("ann", "ann"));
  EXPECT_THAT(Revoke(With(anns), bobs.token().id()),
              Fails(StatusCode::kNotFound,
                    absl::StrCat("id: there is no token ", bobs.token().id(),
                                 ", or it is another user's")));
  EXPECT_THAT(Revoke(daemon_.admin(), "0a1b2c3d4e5f"),
              Fails(StatusCode::kNotFound));
  // The token in use, too: the account that owns the daemon needs no token.
  EXPECT_THAT(Revoke(With(anns_admin), anns_admin.token().id()), IsOk());
  EXPECT_THAT(With(anns_admin).Call(&Access::WhoAmI),
              Fails(StatusCode::kUnauthenticated));
  EXPECT_THAT(Revoke(With(anns), anns.token().id()), IsOk());
  EXPECT_THAT(Revoke(daemon_.admin(), bobs.token().id()), IsOk());
  EXPECT_THAT(daemon_.tokens->List(), IsEmpty());
}

// A token that a caller gives in the place of its id is not logged.
TEST_F(AccessCallsTest, WhatIsNoIdIsNotQuoted) {
  const std::string secret = Ok(Create()).secret();
  for (const std::string& id :
       {secret, std::string(), std::string("canary"), std::string("\x1b[2J"),
        std::string(4000, 'a'), daemon_.tokens->List()[0].sha256,
        std::string("0A1B2C3D4E5F")}) {
    EXPECT_EQ(Revoke(daemon_.admin(), id).status(),
              absl::InvalidArgumentError(
                  "id: is not a token id, which has 12 hexadecimal digits; the "
                  "list of tokens shows them"));
  }
  EXPECT_TRUE(daemon_.tokens->Find(secret).has_value());
}

TEST_F(AccessCallsTest, ReportsTheCallerAndTheToken) {
  v1::WhoAmIResponse who = Ok(daemon_.admin().Call(&Access::WhoAmI));
  EXPECT_EQ(who.user(), *access::AccountName(geteuid()));
  EXPECT_EQ(who.role(), v1::ROLE_ADMIN);
  EXPECT_EQ(who.way(), v1::WAY_SOCKET);
  EXPECT_FALSE(who.has_token());
  EXPECT_FALSE(who.has_certificate_expire_time());
  const v1::CreateTokenResponse made = Ok(Create());
  who = Ok(With(made).Call(&Access::WhoAmI));
  EXPECT_EQ(who.user(), "ann");
  EXPECT_EQ(who.way(), v1::WAY_TOKEN);
  EXPECT_EQ(who.token().id(), made.token().id());
  EXPECT_TRUE(who.token().has_last_use_time());
  // Of a port with a certificate, and of a token that is gone meanwhile.
  const access::Caller caller = *daemon_.tokens->Find(made.secret());
  EXPECT_THAT(Revoke(daemon_.admin(), made.token().id()), IsOk());
  who.Clear();
  EXPECT_THAT(WhoAmI(*daemon_.tokens, caller, absl::FromUnixSeconds(77), who),
              IsOk());
  EXPECT_EQ(who.certificate_expire_time().seconds(), 77);
  EXPECT_EQ(who.user(), "ann");
  EXPECT_FALSE(who.has_token());
}

TEST(AuditDetail, ASpecIsRecordedByItsDigest) {
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  request.set_priority(5);
  request.set_anyway(true);
  request.add_inputs();
  const std::string detail =
      "a spec with the SHA-256 44136fa355b3678a1146ad16f7, inputs: 1, "
      "priority 5, anyway";
  EXPECT_EQ(AuditDetail(request), detail);
  request.add_after("canary");
  EXPECT_EQ(AuditDetail(request), detail + ", after jobs: 1");
  request.set_held(true);
  EXPECT_EQ(AuditDetail(request), detail + ", after jobs: 1, held");
  // Nothing of it is quoted, and nothing read beyond its limit.
  request.set_spec_json(R"({"model": "/canary"})");
  request.set_owner("canary");
  request.set_idempotency_key("canary");
  (*request.mutable_labels())["canary"] = "canary";
  request.add_inputs()->set_path("canary");
  EXPECT_THAT(AuditDetail(request), Not(HasSubstr("canary")));
  request.set_spec_json(std::string(2 << 20, ' '));
  EXPECT_THAT(AuditDetail(request), HasSubstr("too long"));
}

TEST(AuditDetail, WhatMayBePrivateIsCountedAndNotQuoted) {
  v1::AddNoteRequest note;
  note.set_text("canary");
  EXPECT_EQ(AuditDetail(note), "a note of 6 bytes");
  v1::TagRequest tags;
  tags.add_add("canary");
  tags.add_remove("canary");
  tags.add_remove("canary");
  EXPECT_EQ(AuditDetail(tags), "adds 1 tags, removes 2");
}

TEST(AuditDetail, ATokenIsRecordedByItsUserLifetimeAndId) {
  v1::CreateTokenRequest request;
  request.set_user("ada");
  request.set_role(v1::ROLE_ADMIN);
  request.set_note("canary");
  EXPECT_EQ(AuditDetail(request), "for ada, admin, for ever");
  request.mutable_expire_time()->set_seconds(1767323045);
  EXPECT_EQ(AuditDetail(request), "for ada, admin, until 2026-01-02 03:04 UTC");
  request.set_role(static_cast<v1::Role>(77));
  request.set_user("\x1b[2J");
  EXPECT_THAT(AuditDetail(request), HasSubstr("\\x1b[2J, role 77"));
  v1::RevokeTokenRequest revoke;
  revoke.set_id("0a1b2c3d4e5f");
  EXPECT_EQ(AuditDetail(revoke), "token 0a1b2c3d4e5f");
  // The token itself, given by mistake.
  revoke.set_id(base::ApiToken(std::string(32, 'k')));
  EXPECT_EQ(AuditDetail(revoke), "an invalid token id");
}

class ListAuditTest : public testing::Test {
 protected:
  // Appends an entry of ada's. Its number is one more than the last one's.
  void Append(const std::string& method, const std::string& job_id = "",
              absl::Time time = absl::FromUnixSeconds(77)) {
    access::AuditEntry entry;
    entry.time = time;
    entry.request = {{"ada", Role::kUser, access::Way::kToken,
                      "token 0a1b2c3d4e5f", "192.168.1.7"},
                     method,
                     job_id,
                     "now"};
    number_ = Ok(daemon_.audit_store->Append(entry));
  }
  std::vector<int64_t> Numbers(const std::string& request) {
    response_ = Ok(daemon_.admin().Call(&Access::ListAudit,
                                        Parsed<v1::ListAuditRequest>(request)));
    std::vector<int64_t> numbers;
    for (const v1::AuditEntry& entry : response_.entries()) {
      numbers.push_back(entry.sequence());
    }
    return numbers;
  }

  InProcessDaemon daemon_;
  int64_t number_ = 0;
  v1::ListAuditResponse response_;
};

TEST_F(ListAuditTest, ReportsEveryField) {
  Append("JobService.Cancel", "01J");
  EXPECT_THAT(daemon_.audit_store->SetResult(
                  number_, absl::PermissionDeniedError("not yours"), ""),
              IsOk());
  const std::string entry = R"pb(
    sequence: 1
    time { seconds: 77 }
    user: "ada"
    role: ROLE_USER
    way: WAY_TOKEN
    credential: "token 0a1b2c3d4e5f"
    origin: "192.168.1.7"
    method: "JobService.Cancel"
    job_id: "01J"
    detail: "now")pb";
  EXPECT_THAT(Numbers(""), ElementsAre(1));
  EXPECT_THAT(
      response_.entries(0),
      EqualsProto(entry + "result: 'PERMISSION_DENIED' message: 'not yours'"));
  // A call without an answer has no result, and a stranger no role.
  daemon_.Execute("UPDATE audit SET result = NULL, message = '', user = ''");
  Numbers("");
  EXPECT_EQ(response_.entries(0).result(), "");
  EXPECT_EQ(response_.entries(0).role(), v1::ROLE_UNSPECIFIED);
}

TEST_F(ListAuditTest, ContinuesPageByPageOfOneFilter) {
  for (int i = 0; i < 5; ++i) Append("JobService.Cancel");
  EXPECT_THAT(Numbers("page_size: 2"), ElementsAre(5, 4));
  const std::string token = response_.next_page_token();
  EXPECT_THAT(Numbers(absl::StrCat("page_size: 2 page_token: '", token, "'")),
              ElementsAre(3, 2));
  EXPECT_THAT(Numbers(absl::StrCat("page_size: 2 page_token: '",
                                   response_.next_page_token(), "'")),
              ElementsAre(1));
  EXPECT_EQ(response_.next_page_token(), "");
  const auto refused = [&](const std::string& request,
                           const std::string& words = "") {
    EXPECT_THAT(daemon_.admin().Call(&Access::ListAudit,
                                     Parsed<v1::ListAuditRequest>(request)),
                Fails(StatusCode::kInvalidArgument, words))
        << request;
  };
  refused(absl::StrCat("user: 'ada' page_token: '", token, "'"), "page_token:");
  refused("page_token: '9223372036854775808.0'");
  EXPECT_THAT(Numbers(absl::StrCat("page_size: ", limits::kAuditPage)),
              SizeIs(5));
  refused(absl::StrCat("page_size: ", limits::kAuditPage + 1));
  refused("page_size: -1");
  for (const auto& [field, most] : {std::pair{"user", limits::kOwnerBytes},
                                    std::pair{"method", limits::kKeyBytes},
                                    std::pair{"job_id", limits::kIdBytes}}) {
    refused(absl::StrCat(field, ": '", std::string(most + 1, 'a'), "'"));
  }
}

TEST_F(ListAuditTest, FiltersReachTheStore) {
  Append("JobService.Cancel", "01J");
  Append("JobService.Hold", "01K");
  EXPECT_THAT(
      daemon_.audit_store->SetResult(number_, absl::NotFoundError(""), ""),
      IsOk());
  Append("JobService.Cancel", "01K", absl::FromUnixSeconds(200));
  const std::pair<const char*, std::vector<int64_t>> cases[] = {
      {"job_id: '01K'", {3, 2}},
      {"method: 'Cancel'", {3, 1}},
      {"refused: true", {2}},
      {"since { seconds: 200 }", {3}},
      {"until { seconds: 200 }", {2, 1}},
      {"user: 'bob'", {}}};
  for (const auto& [request, numbers] : cases) {
    EXPECT_EQ(Numbers(request), numbers) << request;
  }
}

TEST_F(ListAuditTest, AUserSeesWhatTheUserDid) {
  const Api ada = daemon_.As("ada"), bob = daemon_.As("bob");
  Append("JobService.Cancel");
  const auto list = [](const Api& by, const std::string& user) {
    v1::ListAuditRequest request;
    request.set_user(user);
    return by.Call(&Access::ListAudit, request);
  };
  EXPECT_THAT(Ok(list(ada, "")).entries(), SizeIs(1));
  EXPECT_THAT(Ok(list(ada, "ada")).entries(), SizeIs(1));
  EXPECT_THAT(Ok(list(bob, "")).entries(), IsEmpty());
  EXPECT_THAT(list(bob, "ada"),
              Fails(StatusCode::kPermissionDenied, "role admin"));
  // The page's caller has no name.
  v1::ListAuditResponse none;
  EXPECT_THAT(ListAudit(*daemon_.audit_store, access::Caller(), {}, none),
              Fails(StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace mpsd::rpc
