// SPDX-License-Identifier: Apache-2.0
#include "client/text/identity_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "core/certificates/certificate_facts.h"

namespace mpsd::client {
namespace {

// Certificates with fewer days are worth a warning.
constexpr int64_t kFewDays = 14;

std::string Until(absl::Time expiry, absl::Time now) {
  const int64_t days = certificates::DaysLeft(expiry, now);
  return absl::StrCat("until ",
                      absl::FormatTime("%Y-%m-%d", expiry, absl::UTCTimeZone()),
                      " (", days, days == 1 ? " day)" : " days)");
}

std::string WayText(const v1::WhoAmIResponse& who, absl::Time now) {
  switch (who.way()) {
    case v1::WAY_SOCKET:
      return "by the socket";
    case v1::WAY_PAGE:
      return "by the web page";
    case v1::WAY_TOKEN:
      break;
    default:
      return "in a way this mpsctl does not know";
  }
  const v1::Token& token = who.token();
  return absl::StrCat("by token ", Printable(token.id()),
                      token.has_expire_time()
                          ? " " + Until(ToTime(token.expire_time()), now)
                          : ", which never expires");
}

}  // namespace

std::string RoleName(v1::Role role) {
  const std::string name = v1::Role_Name(role);
  return name.empty() ? absl::StrCat("role ", static_cast<int>(role))
                      : absl::AsciiStrToLower(name.substr(5));
}

std::string IdentityText(const v1::WhoAmIResponse& who, absl::Time now) {
  return absl::StrCat(who.user().empty() ? "-" : Printable(who.user()), ", ",
                      RoleName(who.role()), ", ", WayText(who, now));
}

std::string CertificateText(absl::Time expiry, absl::Time now) {
  const int64_t days = certificates::DaysLeft(expiry, now);
  if (days < 0) {
    return absl::StrCat(
        "EXPIRED on ",
        absl::FormatTime("%Y-%m-%d", expiry, absl::UTCTimeZone()),
        ": its admin renews it with `mpsd tls renew`");
  }
  const std::string text = Until(expiry, now);
  return days < kFewDays
             ? absl::StrCat(text, ": have its admin run `mpsd tls renew` SOON")
             : text;
}

}  // namespace mpsd::client
