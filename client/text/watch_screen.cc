// SPDX-License-Identifier: Apache-2.0
#include "client/text/watch_screen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/bar.h"
#include "client/text/format.h"
#include "client/text/host_text.h"

namespace mpsd::client {
namespace {

// A smaller screen leaves out empty lines and the machine.
constexpr int kRoomyRows = 16;
constexpr size_t kShortId = 8;

using Lines = std::vector<std::string>;

void Add(std::string& text, const std::string& part) {
  if (!part.empty()) absl::StrAppend(&text, text.empty() ? "" : "  ", part);
}

// A line, unless there is nothing to say.
void AddLine(Lines& lines, const char* label, const std::string& text) {
  if (!text.empty()) lines.push_back(label + text);
}

std::string Head(const Watched& watched, const Viewer& viewer) {
  if (!watched.lost.empty()) {
    return absl::StrCat(
        "NO ANSWER for ",
        Seconds(absl::ToDoubleSeconds(viewer.now - watched.answered)),
        ", trying again: ", watched.lost);
  }
  const v1::InfoResponse& info = watched.info;
  return absl::StrCat(absl::FormatTime("%H:%M:%S", viewer.now, viewer.zone),
                      "  ", info.running_jobs(), " running, ",
                      info.queued_jobs(), " queued  mpsd ", info.version(),
                      info.device().empty() ? "" : " on ", info.device());
}

std::string MemoryText(const v1::Progress& progress) {
  const v1::DeviceMemory& memory = progress.memory();
  std::string text;
  if (memory.has_current_allocated_bytes()) {
    text = Bytes(memory.current_allocated_bytes());
  }
  if (memory.recommended_max_bytes() > 0) {
    absl::StrAppend(&text, " of ", Bytes(memory.recommended_max_bytes()));
  }
  if (memory.has_peak_allocated_bytes()) {
    Add(text, "peak " + Bytes(memory.peak_allocated_bytes()));
  }
  if (memory.has_footprint_bytes()) {
    Add(text, "footprint " + Bytes(memory.footprint_bytes()));
  }
  if (progress.has_device_utilization_ratio()) {
    Add(text, absl::StrFormat("%s busy %.0f%%", progress.device(),
                              100 * progress.device_utilization_ratio()));
  }
  return text;
}

std::string ProgressText(const v1::Progress& progress, const Viewer& viewer) {
  std::string text =
      absl::StrCat("step ", progress.step(), "/", progress.total_steps());
  const double eta = progress.eta_seconds();
  if (progress.step() < progress.total_steps() && eta < 1e9) {
    Add(text, absl::StrCat(
                  "ETA ", Seconds(eta),
                  absl::FormatTime(" (%H:%M)", viewer.now + absl::Seconds(eta),
                                   viewer.zone)));
  }
  Add(text, absl::StrFormat("epoch %.2f", progress.epoch()));
  return Bar(progress.step(), progress.total_steps(), text, viewer.columns,
             viewer.utf8);
}

void AddJob(const Watched& watched, const Viewer& viewer, Lines& lines) {
  const v1::Job& job = watched.job;
  if (job.id().empty()) return lines.push_back("No job runs.");
  std::string title = "Job " + job.id();
  Add(title, job.name());
  Add(title, job.owner());
  if (IsStudy(job.kind())) Add(title, KindName(job.kind()));
  if (job.attempt() > 1) Add(title, absl::StrCat("attempt ", job.attempt()));
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
    lines.push_back(absl::StrFormat("%s tok/s  lr %.3g  grad norm %.3g",
                                    Count(progress.tokens_per_second()),
                                    progress.learning_rate(),
                                    progress.grad_norm()));
    AddLine(lines, "memory ", MemoryText(progress));
    AddLine(lines, "on the CPU: ", FallbackText(progress));
  }
  AddLine(lines, "paused: ", PauseText(job.pause(), viewer.now));
  AddLine(lines, "held: ", job.hold());
  if (job.cancel_requested()) lines.push_back("is being cancelled");
  if (!job.warnings().empty()) {
    AddLine(lines, "warning: ", *job.warnings().rbegin());
  }
}

void AddQueue(const v1::QueueResponse& queue, size_t room, Lines& lines) {
  Lines waiting;
  for (const auto& entry : queue.entries()) {
    if (entry.state() == v1::JOB_STATE_RUNNING) continue;
    const std::string& id = entry.id();
    std::string text = absl::StrFormat("%3d", waiting.size() + 1);
    Add(text, id.substr(id.size() - std::min(id.size(), kShortId)));
    Add(text, entry.owner());
    Add(text, entry.name());
    Add(text, entry.hold().empty() ? entry.why() : "held: " + entry.hold());
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
                    Bytes(info.disk_free_bytes()), " of disk free");
    lines.push_back(machine);
  }
  AddLine(lines, "jobs wait: ", info.hold());
  if (!watched.job.has_pause()) {
    AddLine(lines, "paused: ", PauseText(info.pause(), viewer.now));
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

}  // namespace mpsd::client
