// SPDX-License-Identifier: Apache-2.0
#include "server/access/rules.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "core/base/limits.h"
#include "tests/core/status_matchers.h"
#include "tests/server/readme_part.h"

namespace mpsd::access {
namespace {

TEST(CallerTest, NamesOfAccountsMailboxesAndCertificatesAreUsers) {
  for (const std::string& name :
       {std::string("ada"), std::string("_mpsd"),
        std::string("ada.lovelace@example.org"), std::string("a"),
        std::string("0day"), std::string("ci-runner+7"),
        std::string(limits::kUserBytes, 'a')}) {
    EXPECT_TRUE(IsUserName(name)) << name;
  }
  // Those that a terminal, a path or a query would misread are invalid.
  for (const char* name : {"", " ada", "ada ", "-rf", ".ada", "@ada", "a/b",
                           "a b", "a\nb", "a\x1b[2J", "ad\xc3\xa4", "a,b"}) {
    EXPECT_FALSE(IsUserName(name)) << name;
  }
  EXPECT_FALSE(IsUserName(std::string(limits::kUserBytes + 1, 'a')));
}

const RolePolicy kPolicy{501, {"ada", "ops@example.org"}, {"guest", "root"}};

TEST(RolePolicyTest, TheDaemonsAccountAndRootAreAdminsOthersAsTheListsSay) {
  EXPECT_EQ(kPolicy.OfAccount(501, "guest"), Role::kAdmin);
  EXPECT_EQ(kPolicy.OfAccount(0, "root"), Role::kAdmin);
  EXPECT_EQ(kPolicy.OfAccount(502, "ada"), Role::kAdmin);
  EXPECT_EQ(kPolicy.OfAccount(503, "guest"), Role::kViewer);
  EXPECT_EQ(kPolicy.OfAccount(504, "bob"), Role::kUser);
  EXPECT_EQ(kPolicy.OfAccount(505, "ops@example.org"), Role::kAdmin);
  EXPECT_EQ(kPolicy.OfAccount(506, "Ada"), Role::kUser);
  EXPECT_EQ(RolePolicy().owner, geteuid());
}

constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

Caller Ada(Role role) {
  Caller caller;
  caller.user = "ada";
  caller.role = role;
  return caller;
}

const Rule& RuleOf(const Method& method) { return method.rule(); }

TEST(Rules, EachMethodHasOneRowAndChangesOfJobsAreAuditedAndNoViewers) {
  std::set<std::string> methods;
  for (const Rule& rule : kRules) {
    SCOPED_TRACE(rule.method);
    EXPECT_TRUE(methods.insert(rule.method).second);
    // An invalid role may do nothing.
    EXPECT_EQ(CheckRole(rule, Ada(Role{})).code(), kDenied);
    if (rule.concerns != Concerns::kOwnJob) continue;
    EXPECT_TRUE(rule.audited);
    EXPECT_EQ(rule.least, Role::kUser);
  }
}

TEST(CheckRole, NamesTheRoleThatIsNeeded) {
  const Rule& submit = RuleOf("JobService.Submit");
  EXPECT_TRUE(CheckRole(submit, Ada(Role::kUser)).ok());
  EXPECT_TRUE(CheckRole(submit, Ada(Role::kAdmin)).ok());
  const absl::Status refused = CheckRole(submit, Ada(Role::kViewer));
  EXPECT_EQ(refused.code(), kDenied);
  EXPECT_EQ(
      refused.message(),
      "this needs the role user, and you (ada) are a viewer, who may only "
      "read: ask an admin for the role user");
  EXPECT_EQ(
      CheckRole(RuleOf("AccessService.CreateToken"), Ada(Role::kUser)).code(),
      kDenied);
}

TEST(CheckOwner, NamesTheOwner) {
  const Rule& cancel = RuleOf("JobService.Cancel");
  const Rights ada(Ada(Role::kUser), false);
  EXPECT_TRUE(CheckOwner(cancel, ada, "J", "ada").ok());
  EXPECT_TRUE(
      CheckOwner(cancel, Rights(Ada(Role::kAdmin), true), "J", "bob").ok());
  const absl::Status refused = CheckOwner(cancel, ada, "J", "bob");
  EXPECT_EQ(refused.code(), kDenied);
  EXPECT_EQ(refused.message(),
            "job J is bob's: this needs the job's owner or the role admin, and "
            "you (ada) are a user; ask bob or an admin");
}

TEST(CheckOwner, HidesWhatIsPrivate) {
  const Rule& logs = RuleOf("JobService.Logs");
  for (const Role role : {Role::kViewer, Role::kUser}) {
    EXPECT_TRUE(CheckOwner(logs, Rights(Ada(role), false), "J", "bob").ok());
    EXPECT_TRUE(CheckOwner(logs, Rights(Ada(role), true), "J", "ada").ok());
    const absl::Status refused =
        CheckOwner(logs, Rights(Ada(role), true), "J", "bob");
    EXPECT_EQ(refused.code(), kDenied);
    EXPECT_THAT(std::string(refused.message()), StartsWith("job J is bob's"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--private-jobs"));
  }
}

TEST(Rights, AJobWithoutOwnerIsNoJobOfTheNameless) {
  Caller page;
  page.way = Way::kPage;
  EXPECT_FALSE(Rights(page, true).MayRead(""));
  EXPECT_FALSE(Rights(page, true).MayChange(""));
  EXPECT_FALSE(Rights(page, false).MayChange(""));
  EXPECT_TRUE(Rights(page, false).MayRead(""));
  const absl::Status refused =
      CheckOwner(RuleOf("JobService.Delete"), Rights(page, false), "J", "");
  EXPECT_EQ(refused.code(), kDenied);
  EXPECT_EQ(refused.message(),
            "job J has no owner: this needs the job's owner or the role admin, "
            "and you are a viewer; ask an admin");
}

TEST(RulesTable, IsTheOneOfTheReadme) {
  EXPECT_EQ(RulesTable(absl::MakeSpan(kRules, 1)),
            "| method | least role | jobs | audited |\n"
            "|---|---|---|---|\n"
            "| `AccessService.CreateToken` | admin | none | yes |\n");
  const std::string all = RulesTable();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'),
            static_cast<std::ptrdiff_t>(std::size(kRules)) + 2);
  ExpectInPage("access.md", "rules", all);
}

}  // namespace
}  // namespace mpsd::access
