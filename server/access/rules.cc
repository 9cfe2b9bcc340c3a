// SPDX-License-Identifier: Apache-2.0
#include "server/access/rules.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"

namespace mpsd::access {
namespace {

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

bool IsNameCharacter(char c) {
  return IsWordCharacter(c) ||
         std::string_view(".@+-").find(c) != std::string_view::npos;
}

}  // namespace

bool IsUserName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kUserBytes &&
         IsWordCharacter(name.front()) &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

namespace {

constexpr uid_t kRoot = 0;

bool Has(const std::vector<std::string>& names, const std::string& user) {
  return std::find(names.begin(), names.end(), user) != names.end();
}

}  // namespace

Role RolePolicy::OfAccount(uid_t uid, const std::string& user) const {
  if (uid == owner || uid == kRoot || Has(admins, user)) return Role::kAdmin;
  return Has(viewers, user) ? Role::kViewer : Role::kUser;
}

namespace {

std::string WithArticle(Role role) {
  return absl::StrCat(role == Role::kAdmin ? "an " : "a ",
                      std::string(Name(role)));
}

// The role in words: "you (ada) are a viewer".
std::string WhoYouAre(const Caller& caller) {
  return absl::StrCat(
      "you", caller.user.empty() ? "" : absl::StrCat(" (", caller.user, ")"),
      " are ", WithArticle(caller.role));
}

std::string WhoseJob(const std::string& job_id, const std::string& owner) {
  return absl::StrCat(
      "job ", job_id,
      owner.empty() ? " has no owner" : absl::StrCat(" is ", owner, "'s"));
}

std::string WhomToAsk(const std::string& owner) {
  return absl::StrCat("ask ", owner.empty() ? "" : absl::StrCat(owner, " or "),
                      "an admin");
}

const char* InWords(Concerns concerns) {
  switch (concerns) {
    case Concerns::kNoJob:
      return "none";
    case Concerns::kAnyJob:
      return "any; of a private one the public part";
    case Concerns::kReadableJob:
      return "the caller's own, and what is not private";
    case Concerns::kOwnJob:
      return "the caller's own";
  }
  return "";
}

}  // namespace

absl::Status CheckRole(const Rule& rule, const Caller& caller) {
  if (caller.role >= rule.least) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "this needs the role ", std::string(Name(rule.least)), ", and ",
      WhoYouAre(caller),
      caller.role == Role::kViewer ? ", who may only read" : "",
      ": ask an admin for the role ", std::string(Name(rule.least))));
}

absl::Status CheckOwner(const Rule& rule, const Rights& rights,
                        const std::string& job_id, const std::string& owner) {
  switch (rule.concerns) {
    case Concerns::kNoJob:
    case Concerns::kAnyJob:
      return absl::OkStatus();
    case Concerns::kReadableJob:
      if (rights.MayRead(owner)) return absl::OkStatus();
      return absl::PermissionDeniedError(absl::StrCat(
          WhoseJob(job_id, owner), ", and this daemon hides jobs of others (",
          "--private-jobs): this needs the job's owner or the role admin, and ",
          WhoYouAre(rights.caller()), "; ", WhomToAsk(owner)));
    case Concerns::kOwnJob:
      if (rights.MayChange(owner)) return absl::OkStatus();
      return absl::PermissionDeniedError(
          absl::StrCat(WhoseJob(job_id, owner),
                       ": this needs the job's owner or the role admin, and ",
                       WhoYouAre(rights.caller()), "; ", WhomToAsk(owner)));
  }
  return absl::PermissionDeniedError("a rule that this mpsd does not know");
}

std::string RulesTable(absl::Span<const Rule> rules) {
  std::string table =
      "| method | least role | jobs | audited |\n|---|---|---|---|\n";
  for (const Rule& rule : rules) {
    absl::StrAppend(&table, "| `", rule.method, "` | ",
                    std::string(Name(rule.least)), " | ",
                    InWords(rule.concerns), " | ", rule.audited ? "yes" : "",
                    " |\n");
  }
  return table;
}

}  // namespace mpsd::access
