// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_EVENT_PRINTER_H_
#define MPSD_CLIENT_EVENT_PRINTER_H_

#include <string>
#include <vector>

#include "client/console.h"
#include "client/progress_line.h"

namespace mpsd::client {

// Prints a job's events as they come: on a terminal as lines above a progress
// bar with a sparkline of the last losses; in a pipe as lines (progress once a
// percent, or every step of a run of at most 100 steps); with --json each event
// as an object.
class EventPrinter {
 public:
  explicit EventPrinter(const Console& console)
      : console_(console), line_(console) {}

  void Print(const v1::JobEvent& event);
  // Removes the bar, so that other code can print.
  void Clear() { line_.Clear(); }

 private:
  void PrintProgress(const v1::JobEvent& event);
  void Line(const v1::JobEvent& event, const std::string& text);

  const Console& console_;
  ProgressLine line_;
  std::vector<double> losses_;  // the last ones
  int64_t last_percent_ = -1;
};

// Prints the end of a job in a few lines: state and duration, eval losses,
// metrics, the output or the reason, and what to do next.
void PrintOutcome(const Console& console, const v1::Job& job);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_EVENT_PRINTER_H_
