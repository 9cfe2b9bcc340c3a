// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/command.h"

#include <sys/un.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/printable.h"

namespace mpsd::ssh {
namespace {

constexpr size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

constexpr char kSettings[] =
#include "settings.inc"
    ;

// The lines of settings.txt but for its comments.
std::vector<std::string> Settings() {
  std::vector<std::string> settings;
  for (const absl::string_view line :
       absl::StrSplit(kSettings, '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "#")) settings.emplace_back(line);
  }
  return settings;
}

}  // namespace

std::string SshProgram() {
  const char* program = std::getenv("MPSD_SSH");
  return program == nullptr || *program == 0 ? "ssh" : program;
}

std::vector<std::string> SessionCommand(const ServerUrl& url,
                                        const std::string& control,
                                        bool may_ask) {
  // -T: no terminal there; -a, -x: neither agent nor display is lent.
  std::vector<std::string> words = {SshProgram(), "-M", "-S", control,
                                    "-T",         "-a", "-x"};
  for (const std::string& setting : Settings()) {
    words.insert(words.end(), {"-o", setting});
  }
  if (!may_ask) words.insert(words.end(), {"-o", "BatchMode=yes"});
  if (!url.user.empty()) words.insert(words.end(), {"-l", url.user});
  if (!url.port.empty()) words.insert(words.end(), {"-p", url.port});
  // Every login shell understands these words; the script comes on stdin.
  words.insert(words.end(), {"--", url.host, "exec /bin/sh -s"});
  return words;
}

absl::StatusOr<std::vector<std::string>> ForwardCommand(
    const std::string& control, const std::string& local,
    const std::string& remote) {
  if (remote.empty() || remote[0] != '/' || !base::IsPrintable(remote) ||
      absl::StrContains(remote, "${")) {
    return absl::InvalidArgumentError(
        absl::StrCat("ssh cannot forward a socket of that name: '",
                     base::Quotable(remote), "'"));
  }
  if (remote.size() > kLongestSocketPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("the path of the socket has ", remote.size(),
                     " bytes, ssh forwards at most ", kLongestSocketPath, ": '",
                     base::Quotable(remote), "'"));
  }
  const std::string escaped =
      absl::StrReplaceAll(remote, {{"\\", "\\\\"}, {":", "\\:"}, {"%", "%%"}});
  // Without a configuration file, whose forwardings this ssh would ask for
  // too. Nobody looks at the host's name.
  return std::vector<std::string>{SshProgram(),
                                  "-F",
                                  "/dev/null",
                                  "-S",
                                  control,
                                  "-o",
                                  "BatchMode=yes",
                                  "-O",
                                  "forward",
                                  "-L",
                                  absl::StrCat(local, ":", escaped),
                                  "--",
                                  "mpsd"};
}

}  // namespace mpsd::ssh
