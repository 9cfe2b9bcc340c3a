// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/token_text.h"
#include "client/verbs.h"
#include "core/base/api_token.h"

namespace mpsd::client {
namespace {

struct TokenOptions {
  enum class Verb { kCreate, kList, kRevoke };
  Verb verb = Verb::kList;
  std::string user;
  std::string role;
  std::string expires = "90d";
  std::string note;
  std::vector<std::string> ids;
};

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

// InvalidArgument where `revoke` got a token in the place of its id; the error
// does not quote it, and no daemon is asked.
absl::Status CheckTokenIds(const TokenOptions& options) {
  for (const std::string& id : options.ids) {
    if (!absl::StartsWith(id, std::string(base::kApiTokenPrefix))) continue;
    return absl::InvalidArgumentError(
        "that is a token, not its id; it stands in this shell's history now, "
        "so revoke it by its id, which `token list` shows");
  }
  return absl::OkStatus();
}

TokenView ViewOf(const Console& console) {
  const Terminal& terminal = console.terminal;
  return {console.out,           console.err,
          console.json,          terminal.is_tty ? terminal.columns() : 0,
          terminal.clock->Now(), terminal.zone};
}

ExitCode Create(const TokenOptions& options, const Console& console) {
  const TokenView view = ViewOf(console);
  absl::StatusOr<v1::CreateTokenRequest> request =
      CreateRequest(options, view.now, view.zone);
  if (!request.ok()) {
    return console.Fail(ExitCode::kBadInput, request.status(), "");
  }
  grpc::ClientContext context;
  SetDeadline(context);
  v1::CreateTokenResponse response;
  grpc::Status status =
      console.daemon.access().CreateToken(&context, *request, &response);
  if (!status.ok()) return console.Fail(status);
  PrintCreated(view, response);
  return ExitCode::kOk;
}

ExitCode List(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListTokensResponse response;
  grpc::Status status =
      console.daemon.access().ListTokens(&context, {}, &response);
  if (!status.ok()) return console.Fail(status);
  PrintTokens(ViewOf(console), response);
  return ExitCode::kOk;
}

ExitCode RevokeOne(const std::string& id, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::RevokeTokenRequest request;
  request.set_id(id);
  v1::RevokeTokenResponse response;
  grpc::Status status =
      console.daemon.access().RevokeToken(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return console.Fail(ExitCode::kNotFound, status.error_message(),
                        "See the tokens there are with `mpsctl token list`.");
  }
  if (!status.ok()) return console.Fail(status);
  PrintRevoked(ViewOf(console), id, response);
  return ExitCode::kOk;
}

ExitCode Revoke(const TokenOptions& options, const Console& console) {
  const absl::Status checked = CheckTokenIds(options);
  if (!checked.ok()) return console.Fail(ExitCode::kBadInput, checked, "");
  ExitCode code = ExitCode::kOk;
  for (const std::string& id : options.ids) {
    const ExitCode one = RevokeOne(id, console);
    if (code == ExitCode::kOk) code = one;
  }
  return code;
}

ExitCode Run(const TokenOptions& options, const Console& console) {
  switch (options.verb) {
    case TokenOptions::Verb::kCreate:
      return Create(options, console);
    case TokenOptions::Verb::kList:
      return List(console);
    case TokenOptions::Verb::kRevoke:
      return Revoke(options, console);
  }
  return ExitCode::kOther;
}

}  // namespace

void AddToken(Command& app, Action* action) {
  auto options = std::make_shared<TokenOptions>();
  Command* verb = app.add_subcommand(
      "token", "Make, list and revoke the tokens by which clients log in");
  AddTokenVerbs(*verb, options.get());
  for (Command* one : verb->verbs()) one->fallthrough();
  verb->callback([=] {
    *action = [=](const Console& console) { return Run(*options, console); };
  });
}

}  // namespace mpsd::client
