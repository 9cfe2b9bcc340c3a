// SPDX-License-Identifier: Apache-2.0
#include "client/token/token_options.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/token/expiry.h"
#include "core/base/api_token.h"

namespace mpsd::client {
namespace {

std::vector<std::string> RoleNames() {
  std::vector<std::string> names;
  for (int i = v1::Role_MIN + 1; i <= v1::Role_MAX; ++i) {
    names.push_back(absl::AsciiStrToLower(
        v1::Role_Name(static_cast<v1::Role>(i)).substr(sizeof("ROLE_") - 1)));
  }
  return names;
}

void AddCreate(Command& app, TokenOptions* options) {
  Command* verb = app.add_subcommand(
      "create", "Make a token and print it, once, on standard output");
  verb->add_option("--user", options->user, "Whose it is")
      ->required()
      ->type_name("NAME");
  verb->add_option("--role", options->role,
                   "viewer reads; user submits, and changes what is the "
                   "user's own; admin changes everything")
      ->required()
      ->check(IsMember(RoleNames()));
  verb->add_option("--expires", options->expires,
                   "After 90d, 12h or 2w, at the end of the day 2027-01-31, "
                   "or never")
      ->type_name("WHEN")
      ->capture_default_str();
  verb->add_option("--note", options->note, "What it is for, as 'laptop'")
      ->type_name("TEXT");
  verb->callback([=] { options->verb = TokenOptions::Verb::kCreate; });
}

}  // namespace

void AddTokenVerbs(Command& app, TokenOptions* options) {
  AddCreate(app, options);
  app.add_subcommand("list",
                     "Show the tokens, newest first: an admin's list has all, "
                     "another user's the user's own")
      ->callback([=] { options->verb = TokenOptions::Verb::kList; });
  Command* revoke = app.add_subcommand(
      "revoke", "End tokens at once, with the streams that they opened");
  revoke->add_option("ID", options->ids, "As `list` shows it")
      ->required()
      ->type_name("");
  revoke->callback([=] { options->verb = TokenOptions::Verb::kRevoke; });
  app.require_subcommand(1);
}

absl::StatusOr<v1::CreateTokenRequest> CreateRequest(
    const TokenOptions& options, absl::Time now, absl::TimeZone zone) {
  v1::CreateTokenRequest request;
  request.set_user(options.user);
  v1::Role role = v1::ROLE_UNSPECIFIED;
  v1::Role_Parse(absl::StrCat("ROLE_", absl::AsciiStrToUpper(options.role)),
                 &role);
  request.set_role(role);
  request.set_note(options.note);
  absl::StatusOr<std::optional<absl::Time>> expiry =
      ParseExpiry(options.expires, now, zone);
  if (!expiry.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--expires: ", expiry.status().message()));
  }
  if (expiry->has_value()) {
    request.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(**expiry));
  }
  return request;
}

absl::Status CheckTokenIds(const TokenOptions& options) {
  for (const std::string& id : options.ids) {
    if (!absl::StartsWith(id, std::string(base::kApiTokenPrefix))) continue;
    return absl::InvalidArgumentError(
        "that is a token, not its id; it stands in this shell's history now, "
        "so revoke it by its id, which `token list` shows");
  }
  return absl::OkStatus();
}

}  // namespace mpsd::client
