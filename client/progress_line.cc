// SPDX-License-Identifier: Apache-2.0
#include "client/progress_line.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/text/bar.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

constexpr int kShortestSparkline = 4;
// The percentage, a bar of 6, a space, and the column that stays free.
constexpr int kColumnsBesideText = 5 + 6 + 1 + 1;

std::string LossText(const v1::Progress& progress) {
  return absl::StrCat("step ", progress.step(), "/", progress.total_steps(),
                      "  loss ", Loss(progress.loss()));
}

std::string SpeedText(const v1::Progress& progress) {
  std::string text;
  if (progress.tokens_per_second() > 0) {
    absl::StrAppend(&text, "  ", Count(progress.tokens_per_second()), " tok/s");
  }
  if (progress.step() < progress.total_steps()) {
    absl::StrAppend(&text, "  ETA ", Seconds(progress.eta_seconds()));
  }
  return text;
}

}  // namespace

std::string StepText(const v1::Progress& progress) {
  return LossText(progress) + SpeedText(progress);
}

std::string StepText(const v1::Progress& progress,
                     const std::vector<double>& losses,
                     const Terminal& terminal) {
  const std::string loss = LossText(progress);
  const std::string speed = SpeedText(progress);
  const int room =
      terminal.columns() - kColumnsBesideText - Width(loss) - Width(speed) - 1;
  if (std::min<int64_t>(room, std::ssize(losses)) < kShortestSparkline) {
    return loss + speed;
  }
  return absl::StrCat(loss, " ", Sparkline(losses, room, terminal.utf8), speed);
}

void ProgressLine::Draw(int64_t done, int64_t total, const std::string& text) {
  if (!console_.terminal.is_tty || console_.json) return;
  // Leaves one column free: a full line would wrap on some terminals.
  drawn_ = Bar(done, total, text, console_.terminal.columns() - 1,
               console_.terminal.utf8);
  console_.out << "\r" << drawn_ << "\x1b[K" << std::flush;
}

void ProgressLine::PrintAbove(const std::string& line) {
  if (!drawn_.empty()) console_.out << "\r\x1b[K";
  console_.out << line << '\n' << drawn_ << std::flush;
}

void ProgressLine::Clear() {
  if (!drawn_.empty()) console_.out << "\r\x1b[K" << std::flush;
  drawn_.clear();
}

}  // namespace mpsd::client
