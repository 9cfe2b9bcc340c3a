// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/complaint.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/printable.h"

namespace mpsd::ssh {
namespace {

constexpr size_t kQuotedLines = 4;
constexpr size_t kQuotedLine = 300;

// The first row with a text that ssh said decides, so special ones come first.
// "HOST" stands for the host, "SSH" for ssh by hand.
struct Row {
  const char* said;
  absl::StatusCode code;
  const char* what;
  const char* next;
};

constexpr char kOnce[] =
    "Run `SSH` once, compare the fingerprint that it shows with the one that "
    "the host's administrator tells you, and confirm it.";

constexpr Row kRows[] = {
    {"Could not resolve hostname", absl::StatusCode::kUnavailable,
     "there is no host of the name HOST",
     "Check the name; an alias of ~/.ssh/config counts too."},
    {"REMOTE HOST IDENTIFICATION HAS CHANGED",
     absl::StatusCode::kUnauthenticated,
     "HOST shows another host key than the one that this account knows",
     "Somebody may be pretending to be it. Ask its administrator whether its "
     "key has changed; if so, remove the old one (`ssh-keygen -R`) and run "
     "`SSH` once."},
    {"REVOKED HOST KEY", absl::StatusCode::kUnauthenticated,
     "the host key of HOST was revoked",
     "Ask its administrator for the new one."},
    {"Host key verification failed", absl::StatusCode::kUnauthenticated,
     "the host key of HOST is not known to this account", kOnce},
    {"host key is known for", absl::StatusCode::kUnauthenticated,
     "the host key of HOST is not known to this account", kOnce},
    {"Permission denied (", absl::StatusCode::kUnauthenticated,
     "HOST lets nobody in with the keys of this account",
     "Add a key to the agent (`ssh-add`), or let the host know it "
     "(`ssh-copy-id`); `SSH` tries the same by hand."},
    {"Too many authentication failures", absl::StatusCode::kUnauthenticated,
     "HOST refused the keys that were tried before the right one",
     "Name the key in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)."},
    {"Connection refused", absl::StatusCode::kUnavailable,
     "HOST is there, but no ssh listens on that port",
     "Turn it on there (a Mac: System Settings, General, Sharing, Remote "
     "Login), or name its port: ssh://HOST:PORT."},
    {"imed out", absl::StatusCode::kUnavailable, "HOST does not answer",
     "Check that it is awake and on the same network or VPN."},
    {"No route to host", absl::StatusCode::kUnavailable, "no way leads to HOST",
     "Check that it is awake and on the same network or VPN."},
    {"is unreachable", absl::StatusCode::kUnavailable, "no way leads to HOST",
     "Check this machine's network."},
    {"Host is down", absl::StatusCode::kUnavailable, "HOST does not answer",
     "Check that it is awake and on the same network or VPN."},
    {"Bad configuration option", absl::StatusCode::kInternal,
     "ssh does not understand its configuration",
     "`SSH` tries the same by hand."},
    {"Bad owner or permissions", absl::StatusCode::kInternal,
     "ssh refuses to read its configuration", "`SSH` tries the same by hand."},
    {"Connection closed", absl::StatusCode::kUnavailable,
     "HOST broke the connection off", "`SSH` tries the same by hand."},
    {"Connection reset", absl::StatusCode::kUnavailable,
     "HOST broke the connection off", "`SSH` tries the same by hand."},
};
constexpr Row kOther = {"", absl::StatusCode::kUnavailable,
                        "ssh to HOST ended without a session",
                        "`SSH` tries the same by hand."};

const Row& RowOf(const std::string& said) {
  for (const Row& row : kRows) {
    if (absl::StrContains(said, row.said)) return row;
  }
  return kOther;
}

// The last lines that ssh said.
std::string Quoted(const std::string& said) {
  std::vector<std::string> lines;
  for (const absl::string_view piece : absl::StrSplit(said, '\n')) {
    const std::string line(absl::StripAsciiWhitespace(piece));
    if (!line.empty()) {
      lines.push_back(base::Shortened(base::Printable(line), kQuotedLine));
    }
  }
  if (lines.size() > kQuotedLines) {
    lines.erase(lines.begin(), lines.end() - kQuotedLines);
  }
  return absl::StrJoin(lines, "\n      ");
}

std::string WithQuote(std::string text, const std::string& said) {
  const std::string quoted = Quoted(said);
  if (!quoted.empty()) absl::StrAppend(&text, "\nssh:  ", quoted);
  return text;
}

}  // namespace

std::string ByHand(const ServerUrl& url) {
  return absl::StrCat("ssh ", url.port.empty() ? "" : "-p ", url.port,
                      url.port.empty() ? "" : " ", url.user,
                      url.user.empty() ? "" : "@", url.host);
}

absl::Status SessionComplaint(const ServerUrl& url, const std::string& said,
                              bool may_ask, bool shown) {
  const Row& row = RowOf(said);
  std::string text =
      absl::StrReplaceAll(absl::StrCat(row.what, "\n", row.next),
                          {{"HOST", url.host}, {"SSH", ByHand(url)}});
  if (row.code == absl::StatusCode::kUnauthenticated && !may_ask) {
    absl::StrAppend(&text,
                    "\nWithout a terminal ssh asks for no passphrase and no "
                    "password.");
  }
  return absl::Status(row.code, shown ? text : WithQuote(text, said));
}

absl::Status ForwardComplaint(const ServerUrl& url, const std::string& socket,
                              bool listens, const std::string& said) {
  if (listens || absl::StrContains(said, "administratively prohibited")) {
    return absl::PermissionDeniedError(WithQuote(
        absl::StrCat("the ssh server of ", url.host, " forwards no sockets",
                     "\nIts administrator can allow that: "
                     "AllowStreamLocalForwarding yes, and no "
                     "DisableForwarding, in sshd_config."),
        said));
  }
  return absl::UnavailableError(WithQuote(
      absl::StrCat("no mpsd listens at ", base::Quotable(socket), " of ",
                   url.host,
                   "\nThe socket is one that a killed mpsd left, or mpsd just "
                   "starts: start it there, or try again."),
      said));
}

}  // namespace mpsd::ssh
