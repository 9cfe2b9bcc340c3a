// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PROGRESS_LINE_H_
#define MPSD_CLIENT_PROGRESS_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// "step 12/100  loss 1.2345  812 tok/s  ETA 1m20s".
std::string StepText(const v1::Progress& progress);
// The same with a sparkline of `losses` behind the loss, where `terminal` has
// the columns for at least four of them beside a short bar.
std::string StepText(const v1::Progress& progress,
                     const std::vector<double>& losses,
                     const Terminal& terminal);

// The last line of the screen, redrawn in place. Does nothing where the output
// is no terminal, or is JSON. The destructor clears the line.
class ProgressLine {
 public:
  explicit ProgressLine(const Console& console) : console_(console) {}
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Draw(int64_t done, int64_t total, const std::string& text);
  // Prints a whole line, above the bar where there is one.
  void PrintAbove(const std::string& line);
  void Clear();

 private:
  const Console& console_;
  std::string drawn_;  // the text on the screen, empty for none
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PROGRESS_LINE_H_
