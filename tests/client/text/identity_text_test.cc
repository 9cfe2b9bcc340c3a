// SPDX-License-Identifier: Apache-2.0
#include "client/text/identity_text.h"

#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

// 2026-01-02 03:04:05 UTC.
const absl::Time kToday = absl::FromUnixSeconds(1767323045);

TEST(IdentityText, EachWay) {
  v1::WhoAmIResponse who;
  who.set_user("ann");
  who.set_role(v1::ROLE_ADMIN);
  who.set_way(v1::WAY_SOCKET);
  EXPECT_EQ(IdentityText(who, kToday), "ann, admin, by the socket");
  who.set_role(v1::ROLE_USER);
  who.set_way(v1::WAY_TOKEN);
  who.mutable_token()->set_id("0a1b2c3d4e5f");
  EXPECT_EQ(IdentityText(who, kToday),
            "ann, user, by token 0a1b2c3d4e5f, which never expires");
  who.mutable_token()->mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(kToday + absl::Hours(24 * 89 + 1)));
  EXPECT_EQ(IdentityText(who, kToday),
            "ann, user, by token 0a1b2c3d4e5f until 2026-04-01 (89 days)");
}

TEST(IdentityText, OfAnyServer) {
  v1::WhoAmIResponse who;
  who.set_role(static_cast<v1::Role>(77));
  who.set_way(static_cast<v1::Way>(77));
  EXPECT_EQ(IdentityText(who, kToday),
            "-, role 77, in a way this mpsctl does not know");
  who.set_user("a\x1b[2J\nb");
  who.set_way(v1::WAY_TOKEN);
  who.mutable_token()->set_id("\x1b]0;x\x07");
  const std::string text = IdentityText(who, kToday);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(CertificateText, WarnsUnderFourteenDays) {
  const auto in = [](int days) {
    return CertificateText(kToday + absl::Hours(24 * days + 1), kToday);
  };
  EXPECT_EQ(in(365), "until 2027-01-02 (365 days)");
  EXPECT_EQ(in(14), "until 2026-01-16 (14 days)");
  EXPECT_EQ(in(13),
            "until 2026-01-15 (13 days): have its admin run `mpsd tls renew` "
            "SOON");
  EXPECT_EQ(in(1),
            "until 2026-01-03 (1 day): have its admin run `mpsd tls renew` "
            "SOON");
  EXPECT_EQ(in(-2),
            "EXPIRED on 2025-12-31: its admin renews it with `mpsd tls renew`");
}

}  // namespace
}  // namespace mpsd::client
