// SPDX-License-Identifier: Apache-2.0
#include "client/top/view.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "client/text/host_text.h"
#include "client/top/job_panel.h"

namespace mpsd::client::top {
namespace {

constexpr int kMostCurveRows = 20;
// The jobs that are shown however much stands above them.
constexpr int kFewestJobs = 4;
// The lines of the list that hold no job: its title and its columns' names.
constexpr int kListHead = 2;
constexpr int kFoot = 1;
constexpr size_t kShortId = 8;

// --- the columns of the list -------------------------------------------------

struct Column {
  const char* title;
  int width;
  int from;  // shown on screens of so many columns
  std::string (*text)(const JobRow&, absl::Time now);
};

std::string Number(double value, std::string (*format)(double)) {
  return std::isnan(value) ? "-" : format(value);
}

// The end of an id tells jobs apart that were made in one second, and mpsctl
// takes it for the whole.
const Column kColumns[] = {
    {"ID", kShortId, 0,
     [](const JobRow& row, absl::Time) {
       return row.id.substr(row.id.size() - std::min(row.id.size(), kShortId));
     }},
    {"STATE", 12, 0,
     [](const JobRow& row, absl::Time) { return StateText(row); }},
    {"PRIORITY", 8, 120,
     [](const JobRow& row, absl::Time) { return absl::StrCat(row.priority); }},
    {"STEP", 11, 0,
     [](const JobRow& row, absl::Time) {
       return row.total_steps == 0
                  ? std::string("-")
                  : absl::StrCat(row.step, "/", row.total_steps);
     }},
    {"LOSS", 7, 0,
     [](const JobRow& row, absl::Time) { return Number(row.loss, Loss); }},
    {"EVAL", 7, 100,
     [](const JobRow& row, absl::Time) { return Number(row.eval_loss, Loss); }},
    {"A STEP", 7, 140,
     [](const JobRow& row, absl::Time) {
       return Number(row.step_seconds, StepTime);
     }},
    {"TOK/S", 8, 140,
     [](const JobRow& row, absl::Time) {
       return Number(row.tokens_per_second, Count);
     }},
    {"ETA", 6, 110,
     [](const JobRow& row, absl::Time) {
       return row.state == v1::JOB_STATE_RUNNING
                  ? Number(row.eta_seconds, Seconds)
                  : std::string("-");
     }},
    {"AGE", 6, 0,
     [](const JobRow& row, absl::Time now) {
       const double age = absl::ToDoubleSeconds(now - row.created);
       return Seconds(std::max(0.0, age));
     }},
    {"OWNER", 8, 0,
     [](const JobRow& row, absl::Time) {
       return row.owner.empty() ? std::string("-") : row.owner;
     }},
    {"NAME", 28, 0, [](const JobRow& row, absl::Time) { return row.name; }},
    {"WHY", 200, 130, [](const JobRow& row, absl::Time) { return row.note; }},
};

// --- the screen, from above --------------------------------------------------

struct Layout {
  std::vector<Line> head;
  std::vector<Line> panel;
  std::vector<std::string> curve;
  int list_row = 0;
  int list_rows = 0;  // of jobs
};

std::string Clock(const Viewer& viewer) {
  return absl::FormatTime("%H:%M:%S", viewer.now, viewer.zone);
}

std::string Ago(absl::Time then, absl::Time now) {
  return Seconds(std::max(0.0, absl::ToDoubleSeconds(now - then)));
}

std::vector<Line> Head(const Model& model, const Viewer& viewer) {
  std::vector<Line> lines;
  if (!model.lost().empty()) {
    lines.push_back(
        {absl::StrCat("NO ANSWER for ", Ago(model.answered(), viewer.now),
                      ", trying again: ", model.lost()),
         Look::kBad});
  }
  if (!model.info()) {
    lines.push_back({absl::StrCat("mpsd at ", model.target())});
    return lines;
  }
  const v1::InfoResponse& info = *model.info();
  if (model.lost().empty()) {
    std::string text =
        absl::StrCat(Clock(viewer), "  ", info.running_jobs(), " running, ",
                     info.queued_jobs(), " queued  mpsd ", info.version());
    if (!info.device().empty()) absl::StrAppend(&text, " on ", info.device());
    absl::StrAppend(&text, ", up ", Ago(ToTime(info.start_time()), viewer.now),
                    "  ", model.target());
    lines.push_back({text, Look::kStrong});
  }
  std::string machine = HostText(info.host());
  if (!machine.empty()) machine += ", ";
  absl::StrAppend(&machine, Bytes(info.disk_free_bytes()), " of disk free");
  lines.push_back({machine});
  if (!info.hold().empty()) {
    lines.push_back(
        {absl::StrCat("jobs wait: ", info.hold_reason(),
                      info.hold_reason().empty() ? "" : ": ", info.hold()),
         Look::kWarning});
  }
  if (info.has_pause()) {
    lines.push_back(
        {"paused: " + PauseText(info.pause(), viewer.now), Look::kWarning});
  }
  return lines;
}

Layout LayOut(const Model& model, const Viewer& viewer) {
  Layout layout;
  layout.head = Head(model, viewer);
  const int columns = viewer.size.columns;
  if (const Watched* watched = model.watched()) {
    layout.panel = JobLines(*watched, model.pinned(), columns, viewer.utf8,
                            viewer.now, viewer.zone);
  } else {
    layout.panel = {{"no job runs", Look::kFaint}};
  }
  // Whatever there is to say, jobs are seen.
  const int most = viewer.size.rows - kFoot - kListHead - kFewestJobs -
                   static_cast<int>(layout.head.size());
  if (static_cast<int>(layout.panel.size()) > most) {
    layout.panel.resize(std::max(most, 1));
  }
  const int used = static_cast<int>(layout.head.size() + layout.panel.size());
  const int room = viewer.size.rows - used - kFoot - kListHead;
  if (const Watched* watched = model.watched()) {
    layout.curve =
        CurveLines(*watched, columns,
                   std::min({room * 3 / 5, room - kFewestJobs, kMostCurveRows}),
                   viewer.utf8);
  }
  layout.list_row = used + static_cast<int>(layout.curve.size());
  layout.list_rows = std::max(room - static_cast<int>(layout.curve.size()), 1);
  return layout;
}

// --- the list ----------------------------------------------------------------

std::string ListTitle(const Model& model) {
  const JobList& list = model.list();
  if (!model.listed()) return "jobs: asking";
  std::string text = absl::StrCat(
      "jobs ", Count(static_cast<double>(list.size())), " of ",
      Count(static_cast<double>(list.total())), list.more() ? "+" : "", ", by ",
      SortName(list.order()), list.reversed() ? " reversed" : "");
  if (list.hides_ended()) absl::StrAppend(&text, ", ended ones hidden");
  if (!list.filter().empty()) {
    absl::StrAppend(&text, ", with \"", list.filter(), "\"");
  }
  return text;
}

void DrawRow(Frame& frame, int row, const JobRow& job, bool selected,
             absl::Time now) {
  const Look look = selected ? Look::kSelected : StateLook(job);
  frame.Put(0, row, selected ? ">" : " ", look);
  int column = 2;
  for (const Column& c : kColumns) {
    if (frame.size().columns < c.from) continue;
    const int room = std::min(c.width, frame.size().columns - column);
    frame.Put(column, row, c.text(job, now), look, room);
    column += c.width + 1;
  }
  if (selected) frame.Paint(row, look);
}

void DrawList(const Model& model, const Viewer& viewer, const Layout& layout,
              Frame& frame) {
  int row = layout.list_row;
  frame.Put(0, row++, ListTitle(model), Look::kStrong);
  int column = 2;
  for (const Column& c : kColumns) {
    if (viewer.size.columns < c.from) continue;
    frame.Put(column, row, c.title, Look::kBar, c.width);
    column += c.width + 1;
  }
  frame.Paint(row++, Look::kBar);
  const JobList& list = model.list();
  if (model.listed() && list.size() == 0) {
    frame.Put(2, row,
              list.total() == 0
                  ? "No jobs. Queue one with `mpsctl submit job.json`."
                  : "No job matches; Esc shows all.",
              Look::kFaint);
    return;
  }
  // The selection stays in the middle, as far as the list goes.
  const auto rows = static_cast<size_t>(layout.list_rows);
  const size_t last = list.size() > rows ? list.size() - rows : 0;
  const size_t middle =
      list.selected_index() - std::min(list.selected_index(), rows / 2);
  const size_t first = std::min(middle, last);
  for (size_t i = first; i < std::min(list.size(), first + rows); ++i) {
    DrawRow(frame, row++, list.at(i), i == list.selected_index(), viewer.now);
  }
}

void DrawFoot(const Model& model, Frame& frame) {
  const int row = frame.size().rows - 1;
  std::string text;
  Look look = Look::kBar;
  switch (model.mode()) {
    case Model::Mode::kQuestion:
      text = absl::StrCat("Cancel job ", model.asked().id, " (",
                          StateText(model.asked()), ")? y/n  ",
                          model.asked().name);
      look = Look::kWarning;
      break;
    case Model::Mode::kFilter:
      text = absl::StrCat("/", model.typed(), "_   Enter keeps, Esc clears");
      break;
    case Model::Mode::kLog:
      text = "arrows, PgUp, PgDn, Home: look back   End: follow   q: close";
      break;
    case Model::Mode::kHelp:
      text = "any key: back";
      break;
    case Model::Mode::kList:
      text =
          "? help  s sort  / filter  e ended  Enter show  l log  c cancel  "
          "q quit";
      break;
  }
  if (!model.message().empty() && model.mode() == Model::Mode::kList) {
    text = model.message();
    look = model.message_is_good() ? Look::kGood : Look::kBad;
  }
  frame.Put(0, row, text, look);
  frame.Paint(row, look);
}

// --- log, help, a screen that is too small -----------------------------------

void DrawLog(const Model& model, const Viewer& viewer, Frame& frame) {
  const OpenLog& log = *model.log();
  const int columns = viewer.size.columns;
  std::string title = absl::StrCat("log of job ", log.id);
  if (log.below > 0) {
    absl::StrAppend(&title, ", ", Count(static_cast<double>(log.below)),
                    " lines above its end");
  }
  if (!model.lost().empty()) {
    absl::StrAppend(&title, "  NO ANSWER for ",
                    Ago(model.answered(), viewer.now), ", trying again");
  }
  frame.Put(0, 0, title, Look::kStrong);
  int row = viewer.size.rows - kFoot - 1;
  if (!log.error.empty()) frame.Put(0, row--, log.error, Look::kBad);
  const auto& lines = log.log.lines();
  if (lines.empty()) {
    frame.Put(0, 1, "nothing in it yet", Look::kFaint);
    return;
  }
  // From below, since nobody knows how many rows the lines above take.
  std::vector<std::string> shown;
  const size_t end = lines.size() - std::min(log.below, lines.size());
  for (size_t i = end; i > 0 && static_cast<int>(shown.size()) < row; --i) {
    const std::vector<std::string> pieces =
        Wrapped(lines[i - 1], columns, viewer.utf8);
    shown.insert(shown.end(), pieces.rbegin(), pieces.rend());
  }
  if (static_cast<int>(shown.size()) < row) {
    row = static_cast<int>(shown.size());
  }
  for (const std::string& line : shown) {
    if (row < 1) break;
    frame.Put(0, row--, line);
  }
}

void DrawHelp(Frame& frame) {
  const Line lines[] = {
      {"mpsctl top", Look::kStrong},
      {},
      {"Up Down PgUp PgDn Home End, j k   select a job"},
      {"Enter   show the selected job above instead of the running one"},
      {"Esc     show the running job again, and every job in the list"},
      {"l       the selected job's log"},
      {"c       cancel the selected job (asks first)"},
      {"s S     sort by the next (the former) of queue, age, name, owner,"},
      {"        progress, loss"},
      {"r       reverse the order"},
      {"/       filter: words of id, name, owner or state"},
      {"e       hide or show jobs that have ended"},
      {"Ctrl-L  draw the screen anew"},
      {"q       quit; every job goes on"},
  };
  int row = 1;
  for (const Line& line : lines) frame.Put(2, row++, line.text, line.look);
}

void DrawTooSmall(const Viewer& viewer, Frame& frame) {
  frame.Put(
      0, 0,
      absl::StrCat("Screen of ", viewer.size.columns, "x", viewer.size.rows,
                   ": top needs ", kSmallest.columns, "x", kSmallest.rows, "."),
      Look::kWarning);
  frame.Put(0, 1, "Make it larger, or use mpsctl");
  frame.Put(0, 2, "list and mpsctl watch. q: quit");
}

bool IsTooSmall(const Size& size) {
  return size.columns < kSmallest.columns || size.rows < kSmallest.rows;
}

}  // namespace

Frame Render(const Model& model, const Viewer& viewer) {
  Frame frame(viewer.size, viewer.utf8);
  if (IsTooSmall(viewer.size)) {
    DrawTooSmall(viewer, frame);
    return frame;
  }
  DrawFoot(model, frame);
  if (model.mode() == Model::Mode::kLog) {
    DrawLog(model, viewer, frame);
    return frame;
  }
  if (model.mode() == Model::Mode::kHelp) {
    DrawHelp(frame);
    return frame;
  }
  const Layout layout = LayOut(model, viewer);
  int row = 0;
  for (const auto* lines : {&layout.head, &layout.panel}) {
    for (const Line& line : *lines) {
      frame.Put(0, row++, line.text, line.look);
    }
  }
  for (const std::string& line : layout.curve) {
    frame.Put(0, row++, line, Look::kCurve);
  }
  DrawList(model, viewer, layout, frame);
  return frame;
}

int PageOf(const Model& model, const Viewer& viewer) {
  if (IsTooSmall(viewer.size)) return 1;
  if (model.mode() == Model::Mode::kLog) return viewer.size.rows - kFoot - 1;
  return LayOut(model, viewer).list_rows;
}

}  // namespace mpsd::client::top
