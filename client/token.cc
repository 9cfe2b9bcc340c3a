// SPDX-License-Identifier: Apache-2.0
#include "client/token.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/verbs.h"
#include "core/base/api_token.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace mpsd::client {

namespace {

using google::protobuf::Timestamp;

void PrintLine(const TokenView& view, const nlohmann::ordered_json& json) {
  view.out << json.dump(-1, ' ', false,
                        nlohmann::json::error_handler_t::replace)
           << '\n'
           << std::flush;
}

std::string RoleName(v1::Role role) {
  if (!v1::Role_IsValid(role)) return absl::StrCat("role ", role);
  return absl::AsciiStrToLower(v1::Role_Name(role).substr(sizeof("ROLE_") - 1));
}

std::string Minute(const Timestamp& stamp, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%d %H:%M", ToTime(stamp), zone);
}

absl::Duration Left(const v1::Token& token, absl::Time now) {
  return ToTime(token.expire_time()) - now;
}

// "89 days", or "5h12m" of the last day. A minute that has begun counts, so
// that a new token of 90 days has 90.
std::string InWords(absl::Duration left) {
  left = absl::Ceil(left, absl::Minutes(1));
  const int64_t days = left / absl::Hours(24);
  if (days == 0) return Seconds(absl::ToDoubleSeconds(left));
  return absl::StrCat(days, days == 1 ? " day" : " days");
}

std::string Expiry(const v1::Token& token, const TokenView& view) {
  if (!token.has_expire_time()) return "never";
  const absl::Duration left = Left(token, view.now);
  return absl::StrCat(Minute(token.expire_time(), view.zone),
                      left <= absl::ZeroDuration()
                          ? " EXPIRED"
                          : absl::StrCat(" (", InWords(left), ")"));
}

std::vector<std::string> Row(const v1::Token& token, const TokenView& view) {
  return {token.id(),
          token.user(),
          RoleName(token.role()),
          Minute(token.create_time(), view.zone),
          OrDash(token.created_by()),
          Expiry(token, view),
          token.has_last_use_time() ? Minute(token.last_use_time(), view.zone)
                                    : "never",
          token.note()};
}

std::string Life(const v1::Token& token, const TokenView& view) {
  if (!token.has_expire_time()) return "It never expires.";
  return absl::StrCat("It expires on ", Minute(token.expire_time(), view.zone),
                      ", in ", InWords(Left(token, view.now)), ".");
}

// A longer span is a typing error; "never" is the way to say it.
constexpr absl::Duration kLongestSpan = absl::Hours(24 * 365 * 100);

std::optional<absl::Time> EndOfDay(const std::string& text,
                                   absl::TimeZone zone) {
  // ParseCivilTime accepts other forms, too.
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') {
    return std::nullopt;
  }
  absl::CivilDay day;
  if (!absl::ParseCivilTime(text, &day)) return std::nullopt;
  return absl::FromCivil(day + 1, zone);
}

}  // namespace

absl::StatusOr<std::optional<absl::Time>> ParseExpiry(const std::string& text,
                                                      absl::Time now,
                                                      absl::TimeZone zone) {
  if (text == "never") return std::optional<absl::Time>();
  const absl::Duration span =
      base::ParseSpan(text, "hdw").value_or(absl::ZeroDuration());
  if (span > kLongestSpan) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is more than 100 years; use never instead"));
  }
  if (span > absl::ZeroDuration()) return std::optional(now + span);
  const std::optional<absl::Time> end = EndOfDay(text, zone);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is not a time: expected a span such as 90d, 12h or 2w, "
                     "a day such as 2027-01-31, or never"));
  }
  if (*end > now) return end;
  return absl::InvalidArgumentError(absl::StrCat("the day ", text, " is over"));
}

void PrintCreated(const TokenView& view,
                  const v1::CreateTokenResponse& response) {
  if (view.json) {
    PrintLine(view, ToJson(response));
  } else {
    view.out << Printable(response.secret()) << '\n' << std::flush;
  }
  const v1::Token& token = response.token();
  const std::string user = Printable(token.user());
  const std::string id = Printable(token.id());
  view.err
      << "Made token " << id << " of " << user << ", with the role "
      << RoleName(token.role()) << ". " << Life(token, view)
      << "\nIt cannot be shown again: mpsd keeps only its SHA-256. Give it to "
      << user
      << " in a way\nthat others cannot read, such as a password manager; it "
         "is typed or piped into\n  mpsctl login HOST:PORT\nRevoke a token "
         "that others may have seen:\n  mpsctl token revoke "
      << id << "\n";
}

void PrintTokens(const TokenView& view,
                 const v1::ListTokensResponse& response) {
  if (view.json) {
    for (const v1::Token& token : response.tokens()) {
      PrintLine(view, ToJson(token));
    }
    return;
  }
  if (response.tokens().empty()) {
    view.out << "No tokens. Make one with `mpsctl token create --user NAME "
                "--role ROLE`.\n";
    return;
  }
  Table table(
      {"ID", "USER", "ROLE", "CREATED", "BY", "EXPIRES", "LAST USE", "NOTE"});
  for (const v1::Token& token : response.tokens()) {
    table.Add(Row(token, view));
  }
  table.Print(view.out, view.columns);
}

void PrintRevoked(const TokenView& view, const std::string& id,
                  const v1::RevokeTokenResponse& response) {
  const int streams = response.ended_streams();
  if (view.json) {
    PrintLine(view, {{"id", id}, {"ended_streams", streams}});
    return;
  }
  view.out << "Token " << id << " is revoked";
  if (streams > 0) {
    view.out << "; " << streams
             << (streams == 1 ? " open stream" : " open streams")
             << " of it ended";
  }
  view.out << ".\n" << std::flush;
}

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
  verb->add_option("--user", options->user, "The token's user")
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
                     "Show the tokens, newest first: all of them for an "
                     "admin,\nthe user's own for others")
      ->callback([=] { options->verb = TokenOptions::Verb::kList; });
  Command* revoke = app.add_subcommand(
      "revoke", "Revoke tokens at once, and end the streams they opened");
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

// InvalidArgument if `revoke` got a token instead of its id; the error does not
// quote it, and no daemon is called.
absl::Status CheckTokenIds(const TokenOptions& options) {
  for (const std::string& id : options.ids) {
    if (!absl::StartsWith(id, std::string(base::kApiTokenPrefix))) continue;
    return absl::InvalidArgumentError(
        "that is a token, not its id; it is in this shell's history now, so "
        "revoke it by its id, which `token list` shows");
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
                        "List the tokens with `mpsctl token list`.");
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
