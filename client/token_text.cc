// SPDX-License-Identifier: Apache-2.0
#include "client/token_text.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/text/table.h"
#include "core/base/printable.h"

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

// A longer span is a slip of the keyboard; who means it says "never".
constexpr absl::Duration kLongestSpan = absl::Hours(24 * 365 * 100);

absl::Duration UnitOf(char letter) {
  switch (letter) {
    case 'h':
      return absl::Hours(1);
    case 'd':
      return absl::Hours(24);
    case 'w':
      return absl::Hours(24 * 7);
    default:
      return absl::ZeroDuration();
  }
}

// Zero where `text` is no span.
absl::Duration SpanOf(const std::string& text) {
  if (text.size() < 2) return absl::ZeroDuration();
  const std::string digits = text.substr(0, text.size() - 1);
  int64_t count = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &count)) {
    return absl::ZeroDuration();
  }
  return count * UnitOf(text.back());
}

std::optional<absl::Time> EndOfDay(const std::string& text,
                                   absl::TimeZone zone) {
  // ParseCivilTime takes other forms, too.
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
  const absl::Duration span = SpanOf(text);
  if (span > kLongestSpan) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is more than 100 years; say never instead"));
  }
  if (span > absl::ZeroDuration()) return std::optional(now + span);
  const std::optional<absl::Time> end = EndOfDay(text, zone);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is no time: expected a span as 90d, 12h or 2w, a day "
                     "as 2027-01-31, or never"));
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
      << "\nNobody can show it again: mpsd keeps no more than its "
         "SHA-256. Hand it to "
      << user
      << " in a way\nthat others cannot read, as by a password manager; "
         "it is typed or piped into\n  mpsctl login HOST:PORT\nA token "
         "that others may have seen ends at once by\n  mpsctl token revoke "
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

}  // namespace mpsd::client
