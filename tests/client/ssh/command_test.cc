// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace mpsd::ssh {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

std::string Forwarded(const std::string& remote) {
  const auto command = ForwardCommand("/c", "/s", remote);
  if (!command.ok()) return std::string(command.status().message());
  for (size_t i = 0; i + 1 < command->size(); ++i) {
    if ((*command)[i] == "-L") return (*command)[i + 1];
  }
  return "no -L";
}

TEST(SshCommand, TheProgramIsTheSystemsOrMpsdSsh) {
  unsetenv("MPSD_SSH");
  EXPECT_EQ(SshProgram(), "ssh");
  setenv("MPSD_SSH", "/opt/ssh", 1);
  EXPECT_EQ(SshProgram(), "/opt/ssh");
  setenv("MPSD_SSH", "", 1);
  EXPECT_EQ(SshProgram(), "ssh");
  unsetenv("MPSD_SSH");
}

TEST(SshCommand, TheHostStandsBehindAllOptions) {
  const auto command =
      SessionCommand({"ann", "studio", "2222", ""}, "/run/c", true);
  EXPECT_EQ(command[0], "ssh");
  EXPECT_THAT(std::vector<std::string>(command.end() - 7, command.end()),
              ElementsAre("-l", "ann", "-p", "2222", "--", "studio",
                          "exec /bin/sh -s"));
  EXPECT_THAT(command, Not(Contains("BatchMode=yes")));
}

TEST(SshCommand, UserAndPortAreLeftToSshsConfiguration) {
  const auto command = SessionCommand({"", "studio", "", ""}, "/run/c", false);
  EXPECT_THAT(command, Not(Contains("-l")));
  EXPECT_THAT(command, Not(Contains("-p")));
  EXPECT_THAT(command, Contains("BatchMode=yes"));
}

// Each of these would let the tunnel outlive mpsctl, fail, or carry more.
TEST(SshCommand, TheConfigurationCannotChangeWhatTheTunnelIs) {
  const auto command = SessionCommand({"", "studio", "", ""}, "/run/c", true);
  for (const char* setting :
       {"ControlPersist=no", "ClearAllForwardings=yes", "RemoteCommand=none",
        "ForkAfterAuthentication=no", "StdinNull=no", "-a", "-x", "-T", "-M"}) {
    EXPECT_THAT(command, Contains(setting));
  }
}

TEST(SshCommand, PathsAreEscapedForSsh) {
  EXPECT_EQ(Forwarded("/var/mpsd.sock"), "/s:/var/mpsd.sock");
  EXPECT_EQ(Forwarded("/Application Support/m"), "/s:/Application Support/m");
  EXPECT_EQ(Forwarded("/a:b\\c%d"), "/s:/a\\:b\\\\c%%d");
  EXPECT_EQ(Forwarded("/$HOME"), "/s:/$HOME") << "ssh replaces only ${HOME}";
}

// A host that answers so would be told this account's environment.
TEST(SshCommand, AHostLearnsNothingOfTheEnvironment) {
  for (const char* remote : {"/x${HOME}", "/${AWS_SECRET_ACCESS_KEY}/m"}) {
    EXPECT_EQ(ForwardCommand("/c", "/s", remote).status().code(),
              absl::StatusCode::kInvalidArgument)
        << remote;
  }
}

TEST(SshCommand, PathsThatNoSshForwards) {
  for (const std::string& remote :
       {std::string(), std::string("relative"), std::string("/a\nb"),
        std::string("/a\x1b[2J"), "/" + std::string(200, 'a')}) {
    EXPECT_EQ(ForwardCommand("/c", "/s", remote).status().code(),
              absl::StatusCode::kInvalidArgument)
        << remote;
  }
}

}  // namespace
}  // namespace mpsd::ssh
