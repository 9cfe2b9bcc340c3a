// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/complaint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::ssh {
namespace {

using testing::HasSubstr;
using testing::Not;

const ServerUrl kUrl = {"ann", "studio", "2222", ""};

struct Case {
  const char* said;
  absl::StatusCode code;
  const char* what;
};

// What OpenSSH 8 to 10 of Linux and macOS say.
const Case kCases[] = {
    {"ssh: Could not resolve hostname studio: Name or service not known\r\n",
     absl::StatusCode::kUnavailable, "there is no host of the name studio"},
    {"ssh: Could not resolve hostname studio: nodename nor servname provided, "
     "or not known\r\n",
     absl::StatusCode::kUnavailable, "there is no host of the name studio"},
    {"ssh: connect to host studio port 22: Connection timed out\r\n",
     absl::StatusCode::kUnavailable, "studio does not answer"},
    {"ssh: connect to host studio port 22: Operation timed out\r\n",
     absl::StatusCode::kUnavailable, "studio does not answer"},
    {"Connection timed out during banner exchange\r\n",
     absl::StatusCode::kUnavailable, "studio does not answer"},
    {"ssh: connect to host studio port 22: Connection refused\r\n",
     absl::StatusCode::kUnavailable, "no ssh listens on that port"},
    {"ssh: connect to host studio port 22: No route to host\r\n",
     absl::StatusCode::kUnavailable, "no way leads to studio"},
    {"ssh: connect to host studio port 22: Network is unreachable\r\n",
     absl::StatusCode::kUnavailable, "no way leads to studio"},
    {"@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n"
     "Host key for studio has changed and you have requested strict checking."
     "\r\nHost key verification failed.\r\n",
     absl::StatusCode::kUnauthenticated, "shows another host key"},
    {"No ED25519 host key is known for studio and you have requested strict "
     "checking.\r\nHost key verification failed.\r\n",
     absl::StatusCode::kUnauthenticated,
     "the host key of studio is not known to this account"},
    {"Host key verification failed.\r\n", absl::StatusCode::kUnauthenticated,
     "the host key of studio is not known to this account"},
    {"ann@studio: Permission denied (publickey).\r\n",
     absl::StatusCode::kUnauthenticated, "lets nobody in with the keys"},
    {"Received disconnect from 10.0.0.1 port 22:2: Too many authentication "
     "failures\r\n",
     absl::StatusCode::kUnauthenticated, "refused the keys that were tried"},
    {"kex_exchange_identification: Connection closed by remote host\r\n",
     absl::StatusCode::kUnavailable, "broke the connection off"},
    {"kex_exchange_identification: read: Connection reset by peer\r\n",
     absl::StatusCode::kUnavailable, "broke the connection off"},
    {"/etc/ssh/x: line 3: Bad configuration option: foo\r\n",
     absl::StatusCode::kInternal, "ssh does not understand its configuration"},
    {"Bad owner or permissions on /x/.ssh/config\r\n",
     absl::StatusCode::kInternal, "refuses to read its configuration"},
    {"", absl::StatusCode::kUnavailable, "ended without a session"},
    {"something new\r\n", absl::StatusCode::kUnavailable,
     "ended without a session"},
};

TEST(SessionComplaint, EachHasItsWords) {
  for (const Case& c : kCases) {
    const absl::Status status = SessionComplaint(kUrl, c.said, true, false);
    EXPECT_EQ(status.code(), c.code) << c.said;
    const std::string message(status.message());
    EXPECT_THAT(message.substr(0, message.find('\n')), HasSubstr(c.what))
        << c.said;
    const std::string ours = message.substr(0, message.find("\nssh:"));
    EXPECT_THAT(ours, Not(HasSubstr("HOST"))) << c.said;
    EXPECT_THAT(ours, Not(HasSubstr("`SSH"))) << c.said;
  }
}

TEST(SessionComplaint, QuotesSshUnlessTheUserHasSeenIt) {
  const char* said = "ann@studio: Permission denied (publickey).\r\n";
  EXPECT_THAT(std::string(SessionComplaint(kUrl, said, true, false).message()),
              HasSubstr("\nssh:  ann@studio: Permission denied (publickey)."));
  EXPECT_THAT(std::string(SessionComplaint(kUrl, said, true, true).message()),
              Not(HasSubstr("(publickey)")));
}

TEST(SessionComplaint, WhatAHostSaysCannotSteerTheTerminal) {
  const std::string message(
      SessionComplaint(kUrl, "\x1b]0;x\x07\n" + std::string(5000, 'a'), true,
                       false)
          .message());
  EXPECT_THAT(message, HasSubstr("\\x1b]0;x\\x07"));
  EXPECT_LT(message.size(), 1000u);
}

TEST(SessionComplaint, WithoutATerminalNothingIsAsked) {
  EXPECT_THAT(
      std::string(SessionComplaint(kUrl, "Permission denied (x)", false, false)
                      .message()),
      HasSubstr("Without a terminal"));
}

TEST(ForwardComplaint, AServerThatForbidsItIsToldFromOneWithoutMpsd) {
  const absl::Status forbidden = ForwardComplaint(
      kUrl, "/m.sock", true,
      "channel 2: open failed: connect failed: open failed\r\n");
  EXPECT_EQ(forbidden.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(forbidden.message()),
              HasSubstr("AllowStreamLocalForwarding"));
  const absl::Status gone = ForwardComplaint(
      kUrl, "/m.sock", false,
      "channel 2: open failed: connect failed: open failed\r\n");
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gone.message()),
              HasSubstr("no mpsd listens at /m.sock of studio"));
}

TEST(ByHand, LeavesOutWhatIsNotGiven) {
  EXPECT_EQ(ByHand(kUrl), "ssh -p 2222 ann@studio");
  EXPECT_EQ(ByHand({"", "studio", "", "/x"}), "ssh studio");
}

}  // namespace
}  // namespace mpsd::ssh
