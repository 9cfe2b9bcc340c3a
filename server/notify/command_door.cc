// SPDX-License-Identifier: Apache-2.0
#include "server/notify/command_door.h"

#include <sys/wait.h>

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "server/notify/settings.h"

namespace mpsd::notify {
namespace {

constexpr int kTemporaryFailure = 75;  // sysexits.h: EX_TEMPFAIL

// Whether a program that shows a notice needs the variable. Nothing else is
// handed on: mpsd's own environment may hold tokens.
bool IsKept(std::string_view name) {
  for (const char* kept : {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG",
                           "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
                           "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}) {
    if (name == kept) return true;
  }
  return absl::StartsWith(absl::string_view(name.data(), name.size()), "LC_");
}

Delivery Judge(const CommandEnd& end) {
  std::string why;
  if (end.timed_out) {
    why = "did not end in time and was killed";
  } else if (WIFSIGNALED(end.wait_status)) {
    why = absl::StrCat("ended by signal ", WTERMSIG(end.wait_status));
  } else if (WEXITSTATUS(end.wait_status) == 0) {
    return Delivery::Sent();
  } else {
    why = absl::StrCat("exit status ", WEXITSTATUS(end.wait_status));
  }
  if (!end.output.empty()) {
    absl::StrAppend(&why, ": ", base::Quotable(end.output));
  }
  const bool temporary = !end.timed_out && WIFEXITED(end.wait_status) &&
                         WEXITSTATUS(end.wait_status) == kTemporaryFailure;
  return temporary ? Delivery::Later(std::move(why))
                   : Delivery::Refused(std::move(why));
}

}  // namespace

Delivery CommandDoor::Deliver(const Notice& notice) {
  if (interrupted_) return Delivery::Later("mpsd stops");
  CommandCall call;
  call.argv = ArgvFor(notice);
  for (const auto& [name, value] : options_.environment) {
    if (IsKept(name)) call.environment[name] = value;
  }
  call.environment["MPSD_EVENT"] = notice.event;
  call.environment["MPSD_TITLE"] = notice.title;
  call.environment["MPSD_TEXT"] = notice.text;
  call.input = notice.body;
  call.timeout = options_.timeout;
  const absl::StatusOr<CommandEnd> end = run_(call, interrupted_);
  if (!end.ok()) return Delivery::Later(std::string(end.status().message()));
  if (interrupted_ && end->timed_out) return Delivery::Later("mpsd stops");
  return Judge(*end);
}

std::vector<std::string> DesktopDoor::ArgvFor(const Notice& notice) const {
  // osascript takes an argument that begins with a dash for an option of its
  // own; no title and no text of a notice begins so.
  return {kOsascript,
          "-e",
          "on run argv",
          "-e",
          "display notification (item 2 of argv) with title (item 1 of argv)",
          "-e",
          "end run",
          notice.title,
          notice.text};
}

}  // namespace mpsd::notify
