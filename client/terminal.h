// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TERMINAL_H_
#define MPSD_CLIENT_TERMINAL_H_

#include <functional>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/interrupt.h"
#include "client/prompt.h"
#include "core/base/clock.h"

namespace mpsd::client {

// The surroundings of a run of mpsctl, which tests replace.
struct Terminal {
  // Output goes to a screen whose last line can be redrawn
  bool is_tty = false;
  std::function<int()> columns = [] { return 80; };
  absl::TimeZone zone = absl::UTCTimeZone();
  const base::Clock* clock = &base::Clock::Real();
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
  Interrupt* interrupt = nullptr;  // may be null: Ctrl-C ends the process
  std::function<int()> rows = [] { return 24; };
  bool utf8 = true;  // the screen shows more than ASCII
  // Asks the user for a line; the errors are Ask's (prompt.h).
  std::function<absl::StatusOr<std::string>(const std::string& question, Echo)>
      ask = [](const std::string& question, Echo echo) {
        return Ask(question, echo);
      };
};

// Whether a locale's characters are UTF-8, by the values of LC_ALL, LC_CTYPE
// and LANG (null: not set): the first that is not empty decides, and without
// any they are ASCII.
bool IsUtf8Locale(const char* lc_all, const char* lc_ctype, const char* lang);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TERMINAL_H_
