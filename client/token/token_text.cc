// SPDX-License-Identifier: Apache-2.0
#include "client/token/token_text.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/text/table.h"

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
          token.created_by().empty() ? "-" : token.created_by(),
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

}  // namespace

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
  view.err << "Made token " << id << " of " << user << ", with the role "
           << RoleName(token.role()) << ". " << Life(token, view)
           << "\nNobody can show it again: mpsd keeps no more than its "
              "SHA-256. Hand it to "
           << user
           << " in a way\nthat others cannot read, as by a password manager; "
              "it is typed or piped into\n  mpsctl login HOST:PORT\nA token "
              "that others may have seen ends at once by\n  "
           << view.program << " token revoke " << id << "\n";
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
    view.out << "No tokens. Make one with `" << view.program
             << " token create --user NAME --role ROLE`.\n";
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

}  // namespace mpsd::client
