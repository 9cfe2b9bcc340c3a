// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_CURSES_SCREEN_H_
#define MPSD_CLIENT_TOP_CURSES_SCREEN_H_

#include <cstdio>
#include <memory>

#include "absl/status/statusor.h"
#include "client/top/screen.h"

namespace mpsd::client::top {

// The terminal of this process, by ncurses. While a screen is open, the process
// catches SIGTERM, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH, which Wait returns as
// keys. However the process ends (but for SIGKILL), the terminal is as it was
// before: a process that crashes, or that SIGTERM or SIGHUP finds waiting for a
// terminal that takes no output for two seconds, restores it on the way. At
// most one screen is open at a time.
class CursesScreen : public Screen {
 public:
  struct Options {
    FILE* in = stdin;
    FILE* out = stdout;
    bool colours = true;  // where the terminal has some
    bool utf8 = true;     // where the terminal can show Braille
  };

  // FailedPrecondition where `in` or `out` is no terminal, or one that ncurses
  // does not know by $TERM, or that cannot move its cursor.
  static absl::StatusOr<std::unique_ptr<CursesScreen>> Open(
      const Options& options);

  // What a signal SIGINT does; any thread may call it.
  virtual void Interrupt() = 0;
};

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_CURSES_SCREEN_H_
