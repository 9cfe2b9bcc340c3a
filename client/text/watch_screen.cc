// SPDX-License-Identifier: Apache-2.0
#include "client/text/watch_screen.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/format.h"
#include "core/base/units.h"

namespace mpsd::client {
namespace {

// A smaller screen omits empty lines and the machine.
constexpr int kRoomyRows = 16;

using Lines = std::vector<std::string>;

void AddPart(std::string& text, const std::string& part) {
  if (!part.empty()) absl::StrAppend(&text, text.empty() ? "" : "  ", part);
}

// A line, unless `text` is empty.
void AddLine(Lines& lines, const char* label, const std::string& text) {
  if (!text.empty()) lines.push_back(label + text);
}

std::string Head(const Watched& watched, const Viewer& viewer) {
  if (!watched.lost.empty()) {
    return absl::StrCat("NO ANSWER for ",
                        Seconds(viewer.now - watched.answered),
                        ", trying again: ", watched.lost);
  }
  const v1::InfoResponse& info = watched.info;
  return absl::StrCat(absl::FormatTime("%H:%M:%S", viewer.now, viewer.zone),
                      "  ", info.running_jobs(), " running, ",
                      info.queued_jobs(), " queued  mpsd ", info.version(),
                      info.device().empty() ? "" : " on ", info.device());
}

std::string ProgressText(const v1::Progress& progress, const Viewer& viewer) {
  std::string text =
      absl::StrCat("step ", progress.step(), "/", progress.total_steps());
  const double eta = progress.eta_seconds();
  if (progress.step() < progress.total_steps() && eta < 1e9) {
    AddPart(text, absl::StrCat("ETA ", Seconds(eta),
                               absl::FormatTime(" (%H:%M)",
                                                viewer.now + absl::Seconds(eta),
                                                viewer.zone)));
  }
  AddPart(text, absl::StrFormat("epoch %.2f", progress.epoch()));
  return Bar(progress.step(), progress.total_steps(), text, viewer.columns,
             viewer.utf8);
}

void AddJob(const Watched& watched, const Viewer& viewer, Lines& lines) {
  const v1::Job& job = watched.job;
  if (job.id().empty()) return lines.push_back("No job runs.");
  std::string title = "Job " + job.id();
  AddPart(title, job.name());
  AddPart(title, job.owner());
  if (IsStudy(job.kind())) AddPart(title, KindName(job.kind()));
  if (job.attempt() > 1)
    AddPart(title, absl::StrCat("attempt ", job.attempt()));
  lines.push_back(title);
  if (!job.has_progress()) {
    lines.push_back("no step yet");
  } else {
    const v1::Progress& progress = job.progress();
    lines.push_back(ProgressText(progress, viewer));
    const std::string loss = absl::StrCat("loss ", Loss(progress.loss()), " ");
    std::string eval;
    if (job.has_eval_loss_after() || job.has_eval_loss_before()) {
      eval = absl::StrCat("  eval loss ", Loss(job.has_eval_loss_after()
                                                   ? job.eval_loss_after()
                                                   : job.eval_loss_before()));
    }
    lines.push_back(absl::StrCat(
        loss,
        Sparkline(watched.losses, viewer.columns - Width(loss) - Width(eval),
                  viewer.utf8),
        eval));
    std::string speed =
        absl::StrFormat("%s tok/s  lr %.3g  grad norm %.3g",
                        Count(progress.tokens_per_second()),
                        progress.learning_rate(), progress.grad_norm());
    if (progress.has_device_utilization_ratio()) {
      AddPart(speed,
              absl::StrFormat("%s busy %.0f%%", progress.device(),
                              100 * progress.device_utilization_ratio()));
    }
    lines.push_back(speed);
    v1::DeviceMemory memory = progress.memory();
    memory.clear_driver_allocated_bytes();  // the line is short
    AddLine(lines, "memory ", MemoryText(memory));
    AddLine(lines, "on the CPU: ", FallbackText(progress));
  }
  AddLine(lines, "", PauseText(job.pause(), viewer.now));
  AddLine(lines, "held: ", job.hold());
  if (job.cancel_requested()) lines.push_back("cancelling");
  if (!job.warnings().empty()) {
    AddLine(lines, "warning: ", *job.warnings().rbegin());
  }
}

void AddQueue(const v1::QueueResponse& queue, size_t room, Lines& lines) {
  Lines waiting;
  for (const auto& entry : queue.entries()) {
    if (entry.state() == v1::JOB_STATE_RUNNING) continue;
    std::string text = absl::StrFormat("%3d", waiting.size() + 1);
    AddPart(text, ShortJobId(entry.id()));
    AddPart(text, entry.owner());
    AddPart(text, entry.name());
    AddPart(text, entry.hold().empty() ? entry.why() : "held: " + entry.hold());
    waiting.push_back(text);
  }
  const size_t all = waiting.size() + queue.more();
  const bool fits = all <= room;
  waiting.resize(std::min(waiting.size(), fits || room == 0 ? room : room - 1));
  lines.insert(lines.end(), waiting.begin(), waiting.end());
  if (!fits && room > 0) {
    lines.push_back(absl::StrCat("and ", all - waiting.size(), " more wait"));
  }
}

}  // namespace

std::vector<std::string> WatchScreen(const Watched& watched,
                                     const Viewer& viewer) {
  const size_t most = std::max(viewer.rows - 1, 1);
  const bool roomy = viewer.rows >= kRoomyRows;
  const v1::InfoResponse& info = watched.info;
  Lines lines = {Head(watched, viewer)};
  if (roomy) {
    std::string machine = HostText(info.host());
    absl::StrAppend(&machine, machine.empty() ? "" : ", ",
                    base::BytesText(info.disk_free_bytes()), " of disk free");
    lines.push_back(machine);
  }
  AddLine(lines, "jobs wait: ", info.hold());
  if (!watched.job.has_pause()) {
    AddLine(lines, "", PauseText(info.pause(), viewer.now));
  }
  if (roomy) lines.push_back("");
  AddJob(watched, viewer, lines);
  if (roomy && info.queued_jobs() > 0) lines.push_back("");
  AddQueue(watched.queue, most - std::min(most, lines.size()), lines);
  lines.resize(std::min(lines.size(), most));
  for (std::string& line : lines) {
    line = Fitted(line, viewer.columns, viewer.utf8);
  }
  return lines;
}

namespace {

constexpr int kRowsWithLegend = 10;
constexpr int kMark = 0x100;  // in a cell, over its dots

// What an axis spans.
struct Range {
  double low = 0, high = 0;
  bool empty = true;

  void AddPart(double value) {
    low = empty ? value : std::min(low, value);
    high = empty ? value : std::max(high, value);
    empty = false;
  }
  // The position of `value` in `count` positions; in the middle if all values
  // are equal. Halves, because the whole range may overflow a double.
  int Place(double value, int count) const {
    const double share =
        low < high ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0.5;
    return static_cast<int>(std::lround(share * (count - 1)));
  }
  // A limit, with enough digits to distinguish it from the other one.
  std::string Text(double value) const {
    const double ratio =
        std::max(std::abs(low), std::abs(high)) / 2 / (high / 2 - low / 2);
    const int digits =
        std::isfinite(ratio)
            ? std::clamp(static_cast<int>(std::log10(ratio)) + 3, 4, 17)
            : 6;
    return absl::StrFormat("%.*g", digits, value);
  }
};

// Characters between the axes, as bits: one bit per dot, numbered as in
// Braille.
struct Grid {
  int columns, rows;
  bool utf8;
  Range x, y;
  std::vector<int> cells = std::vector<int>(columns * rows);

  void Dot(int at_x, int at_y) {
    constexpr int kBits[2][4] = {{0x01, 0x02, 0x04, 0x40},
                                 {0x08, 0x10, 0x20, 0x80}};
    cells[utf8 ? at_y / 4 * columns + at_x / 2 : at_y * columns + at_x] |=
        utf8 ? kBits[at_x % 2][at_y % 4] : 1;
  }

  // Joins each point to the one before, so that a column of many points shows
  // the whole range from its least to its greatest value.
  void Line(const std::vector<LossPoint>& points) {
    bool joins = false;
    int from_x = 0, from_y = 0;
    for (const LossPoint& p : points) {
      const bool joined = joins;
      joins = std::isfinite(p.loss);
      if (!joins) continue;
      const int height = rows * (utf8 ? 4 : 1);
      const int to_x =
          x.Place(static_cast<double>(p.step), columns * (utf8 ? 2 : 1));
      const int to_y = height - 1 - y.Place(p.loss, height);
      if (!joined) from_x = to_x, from_y = to_y;
      const int dots =
          std::max({std::abs(to_x - from_x), std::abs(to_y - from_y), 1});
      for (int i = 0; i <= dots; ++i) {
        const double share = static_cast<double>(i) / dots;
        Dot(static_cast<int>(std::lround(from_x + share * (to_x - from_x))),
            static_cast<int>(std::lround(from_y + share * (to_y - from_y))));
      }
      from_x = to_x, from_y = to_y;
    }
  }

  void Marks(const std::vector<LossPoint>& points) {
    for (const LossPoint& p : points) {
      if (!std::isfinite(p.loss)) continue;
      cells[(rows - 1 - y.Place(p.loss, rows)) * columns +
            x.Place(static_cast<double>(p.step), columns)] |= kMark;
    }
  }

  // One row, without spaces at its end.
  std::string Row(int row) const {
    std::string text;
    size_t end = 0;
    for (int column = 0; column < columns; ++column) {
      const int cell = cells[row * columns + column];
      text += cell == 0             ? " "
              : (cell & kMark) != 0 ? (utf8 ? "◆" : "o")
              : !utf8
                  ? "."
                  // U+2800 and the bits
                  : std::string{'\xE2', static_cast<char>(0xA0 + (cell >> 6)),
                                static_cast<char>(0x80 + (cell & 0x3F))};
      if (cell != 0) end = text.size();
    }
    return text.substr(0, end);
  }
};

}  // namespace

std::vector<std::string> DrawLosses(const std::string& title,
                                    const std::vector<LossPoint>& steps,
                                    const std::vector<LossPoint>& evaluations,
                                    int columns, int rows, bool utf8) {
  columns = std::max(columns, 20);
  rows = std::max(rows, 5);
  std::vector<std::string> lines = {Fitted(title, columns, utf8)};
  if (rows >= kRowsWithLegend && !steps.empty() && !evaluations.empty()) {
    lines.push_back(utf8 ? "⠒⠢ loss  ◆ eval loss" : ". loss  o eval loss");
  }
  Range x, y;
  for (const auto* points : {&steps, &evaluations}) {
    for (const LossPoint& p : *points) {
      if (!std::isfinite(p.loss)) continue;
      x.AddPart(static_cast<double>(p.step));
      y.AddPart(p.loss);
    }
  }
  const int height = rows - static_cast<int>(lines.size()) - 2;
  std::vector<std::string> numbers(height);
  size_t margin = 0;
  for (int row = 0; row < height; ++row) {
    const bool is_end = row == 0 || row == height - 1;
    // Equal losses lie in the middle.
    if (y.low < y.high ? !is_end : row != (height - 1) / 2) continue;
    numbers[row] = y.Text(row == 0 ? y.high : y.low);
    numbers[row].resize(std::min<size_t>(numbers[row].size(), columns / 2));
    margin = std::max(margin, numbers[row].size());
  }
  Grid grid{columns - static_cast<int>(margin) - 1, height, utf8, x, y};
  grid.Line(steps);
  grid.Marks(evaluations);
  for (int row = 0; row < height; ++row) {
    const bool tick = !numbers[row].empty();
    lines.push_back(absl::StrFormat(
        "%*s%s%s", margin, numbers[row],
        utf8 ? (tick ? "┤" : "│") : (tick ? "+" : "|"), grid.Row(row)));
  }
  std::string axis = std::string(margin, ' ') + (utf8 ? "└" : "+");
  for (int i = 0; i < grid.columns; ++i) axis += utf8 ? "─" : "-";
  lines.push_back(axis);
  const std::string first = Count(x.low), last = Count(x.high);
  const int gap = std::max(grid.columns - Width(first) - Width(last), 1);
  lines.push_back(Fitted(absl::StrCat(std::string(margin + 1, ' '), first,
                                      std::string(gap, ' '), last),
                         columns, utf8));
  return lines;
}

}  // namespace mpsd::client
