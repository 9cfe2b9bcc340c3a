// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_USER_LIMIT_OPTIONS_H_
#define MPSD_SERVER_USER_LIMIT_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/user_limits.h"

namespace mpsd {

// The options --limit-*, --keep-* and --user-limit, as CLI11 fills them in.
struct UserLimitOptions {
  std::vector<std::string> others;  // by jobs::kLimitKeys; empty: not given
  std::vector<std::string> keeps;   // by jobs::kKeepKeys, likewise
  std::vector<std::string> users;   // NAME:KEY=VALUE
};

// `options` must outlive the parse.
void DeclareUserLimits(CLI::App& app, UserLimitOptions& options);

// The table [user.NAME] of a file as the option --user-limit: adds the values
// of `item` to `users`. False if the item belongs to no such table.
bool TakeUserTable(const CLI::ConfigItem& item, CLI::ConfigItem& users);

// InvalidArgument names the option.
absl::StatusOr<jobs::LimitSettings> ReadUserLimits(
    const UserLimitOptions& options);

}  // namespace mpsd

#endif  // MPSD_SERVER_USER_LIMIT_OPTIONS_H_
