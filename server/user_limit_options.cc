// SPDX-License-Identifier: Apache-2.0
#include "server/user_limit_options.h"

#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/access/rules.h"

namespace mpsd {
namespace {

constexpr char kUserLimit[] = "--user-limit";

constexpr const char* kHelp[] = {
    "Jobs that a user may have in the queue [none]; like the limits below, for "
    "users who are not admins",
    "Bytes of uploads that a user may have, such as 20GiB [none]",
    "No job of a user is queued while the folders of the user's jobs have this "
    "many bytes [none]",
    "LOW:HIGH, the priorities that a user may give [none]",
    "Hours for which each job may hold the device, all its attempts together; "
    "then it writes a checkpoint and has FAILED. Counts for admins too; 0: "
    "none "
    "[none]"};
static_assert(std::size(kHelp) == std::size(jobs::kLimitKeys));

constexpr const char* kKeepHelp[] = {
    "A job that ended this many days ago is removed with its results [none]; "
    "like the rules below, for each user, admins too; pinned jobs and what "
    "unfinished jobs need are always kept",
    "This many of a user's newest jobs that have ended are kept [none]",
    ("The folders of a user's jobs that have ended have at most this many "
     "bytes, such as 200GiB: the oldest first lose their checkpoints, then are "
     "removed [none]"),
    "The checkpoints of a job that ended this many days ago are removed, its "
    "result is kept [none]"};
static_assert(std::size(kKeepHelp) == std::size(jobs::kKeepKeys));

absl::Status Prefixed(const std::string& option, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", status.message()));
}

// A limit of one user, as an option spells it.
struct Given {
  std::string user, key, value;
};

// A user's name has neither colon nor equals sign.
absl::StatusOr<Given> Split(const std::string& text) {
  const size_t colon = text.find(':');
  const size_t equals = text.find('=', colon == text.npos ? 0 : colon);
  if (colon == text.npos || equals == text.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected NAME:KEY=VALUE, is '", text, "'"));
  }
  Given given{text.substr(0, colon), text.substr(colon + 1, equals - colon - 1),
              text.substr(equals + 1)};
  if (!access::IsUserName(given.user)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", given.user,
                     "' is not a user name: letters, digits and ._@+-, the "
                     "first a letter, a digit or _"));
  }
  return given;
}

}  // namespace

void DeclareUserLimits(CLI::App& app, UserLimitOptions& options) {
  options.others.resize(std::size(jobs::kLimitKeys));
  for (size_t i = 0; i < options.others.size(); ++i) {
    app.add_option(absl::StrCat("--limit-", jobs::kLimitKeys[i]),
                   options.others[i], kHelp[i]);
  }
  options.keeps.resize(std::size(jobs::kKeepKeys));
  for (size_t i = 0; i < options.keeps.size(); ++i) {
    app.add_option(absl::StrCat("--", jobs::kKeepKeys[i]), options.keeps[i],
                   kKeepHelp[i]);
  }
  app.add_option(kUserLimit, options.users,
                 "NAME:KEY=VALUE, another limit for one user; may be repeated; "
                 "in the file the tables [user.NAME], at its end");
}

bool TakeUserTable(const CLI::ConfigItem& item, CLI::ConfigItem& users) {
  if (item.parents.empty() || item.parents.front() != "user") return false;
  // The marks of a section's beginning and end.
  if (item.name == "++" || item.name == "--") return true;
  // A key directly below [user] names no user: CLI11 reports it.
  if (item.parents.size() < 2) return false;
  // Older versions of CLI11 take [user."a.b"] apart at the dot.
  std::string name =
      absl::StrJoin(std::next(item.parents.begin()), item.parents.end(), ".");
  CLI::detail::remove_quotes(name);
  for (const std::string& value : item.inputs) {
    users.inputs.push_back(absl::StrCat(name, ":", item.name, "=", value));
  }
  return true;
}

absl::StatusOr<jobs::LimitSettings> ReadUserLimits(
    const UserLimitOptions& options) {
  jobs::LimitSettings settings;
  const auto read = [&](const std::vector<std::string>& values,
                        const auto& keys, const char* prefix) {
    absl::Status set;
    for (size_t i = 0; i < values.size() && set.ok(); ++i) {
      if (values[i].empty()) continue;
      set = jobs::SetLimit(settings.others, keys[i], values[i]);
      if (!set.ok()) set = Prefixed(absl::StrCat(prefix, keys[i]), set);
    }
    return set;
  };
  absl::Status set = read(options.others, jobs::kLimitKeys, "--limit-");
  if (set.ok()) set = read(options.keeps, jobs::kKeepKeys, "--");
  if (!set.ok()) return set;
  std::set<std::pair<std::string, std::string>> seen;
  for (const std::string& text : options.users) {
    const absl::StatusOr<Given> given = Split(text);
    if (!given.ok()) return Prefixed(kUserLimit, given.status());
    if (!seen.insert({given->user, given->key}).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          kUserLimit, ": '", given->user, ":", given->key, "' is given twice"));
    }
    // A user's own table replaces what it names, and leaves the rest as for
    // others.
    jobs::UserLimits& limits =
        settings.users.try_emplace(given->user, settings.others).first->second;
    absl::Status set = jobs::SetLimit(limits, given->key, given->value);
    if (!set.ok()) {
      return Prefixed(
          absl::StrCat(kUserLimit, " ", given->user, ":", given->key), set);
    }
  }
  return settings;
}

}  // namespace mpsd
