// SPDX-License-Identifier: Apache-2.0
#include "client/top/job_panel.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plot/chart.h"
#include "client/plot/sparkline.h"
#include "client/text/format.h"
#include "client/text/host_text.h"

namespace mpsd::client::top {
namespace {

constexpr int kMemoryGauge = 12;
constexpr int kLongestGauge = 40;
// A narrower screen leaves out what matters less.
constexpr int kWide = 110;
// Fewer steps than this are not smoothed.
constexpr size_t kFewestToSmooth = 50;

void Add(std::string& text, const std::string& part) {
  absl::StrAppend(&text, text.empty() ? "" : "  ", part);
}

Line Title(const Watched& watched, bool pinned) {
  const v1::Job& job = watched.job;
  const JobRow row = RowOf(job);
  std::string text = absl::StrCat("job ", job.id(), "  ", StateText(row));
  if (row.attempt > 1) Add(text, absl::StrCat("attempt ", row.attempt));
  if (pinned) Add(text, "[chosen]");
  if (!job.owner().empty()) Add(text, job.owner());
  Add(text, job.name());
  return {text, Look::kStrong};
}

Line ProgressLine(const v1::Job& job, int columns, bool utf8, absl::Time now,
                  absl::TimeZone zone) {
  const v1::Progress& progress = job.progress();
  std::string text;
  if (job.has_progress()) {
    Add(text,
        absl::StrCat("step ", progress.step(), "/", progress.total_steps()));
    Add(text, absl::StrFormat("epoch %.2f", progress.epoch()));
  } else if (!IsFinal(job.state())) {
    text = "no step yet";
  }
  if (IsFinal(job.state())) {
    if (job.has_end_time()) {
      Add(text, absl::StrCat("ended ", DateTime(ToTime(job.end_time()), zone)));
    }
  } else if (job.state() == v1::JOB_STATE_RUNNING && job.has_progress()) {
    const double eta = progress.eta_seconds();
    Add(text, absl::StrCat("ETA ", Seconds(eta)));
    if (std::isfinite(eta) && eta >= 0) {
      const absl::Time end = now + absl::Seconds(eta);
      absl::StrAppend(&text, " (",
                      absl::FormatTime(
                          eta < 20 * 3600 ? "%H:%M" : "%m-%d %H:%M", end, zone),
                      ")");
    }
  }
  if (!job.has_progress()) return {text, Look::kPlain};
  const double share = RowOf(job).share();
  const std::string percent =
      absl::StrFormat("%3d%% ", static_cast<int>(share * 100));
  const int room =
      std::min(columns - Width(percent) - Width(text) - 2, kLongestGauge);
  return {room < 4
              ? percent + text
              : absl::StrCat(percent, Gauge(share, room, utf8), "  ", text),
          Look::kPlain};
}

std::string Trend(const std::deque<double>& values, int columns, bool utf8) {
  if (values.size() < 2) return "";
  return absl::StrCat(" ",
                      Sparkline({values.begin(), values.end()}, columns, utf8));
}

Line SpeedLine(const Watched& watched, int columns, bool utf8) {
  const v1::Job& job = watched.job;
  const v1::Progress& progress = job.progress();
  const bool wide = columns >= kWide;
  const int trend = std::clamp((columns - 72) / 2, 5, 24);
  std::string text = absl::StrCat("loss ", Loss(progress.loss()));
  if (job.has_eval_loss_after()) {
    Add(text, absl::StrCat("eval ", Loss(job.eval_loss_after())));
  } else if (job.has_eval_loss_before()) {
    Add(text, absl::StrCat("eval ", Loss(job.eval_loss_before())));
  }
  Add(text, absl::StrCat("step ", StepTime(progress.step_seconds()),
                         Trend(watched.step_seconds, trend, utf8)));
  Add(text,
      absl::StrCat(Count(progress.tokens_per_second()), " tok/s",
                   !wide ? "" : Trend(watched.tokens_per_second, trend, utf8)));
  Add(text, absl::StrFormat("lr %.3g", progress.learning_rate()));
  if (wide) {
    Add(text, absl::StrFormat("grad norm %.3g", progress.grad_norm()));
  }
  return {text, Look::kPlain};
}

// The memory of a job against what the device recommends.
Line MemoryLine(const v1::Job& job, bool utf8) {
  const v1::Progress& progress = job.progress();
  const v1::DeviceMemory& memory = progress.memory();
  Line line = {"memory", Look::kPlain};
  if (memory.has_current_allocated_bytes()) {
    absl::StrAppend(&line.text, " ", Bytes(memory.current_allocated_bytes()));
    if (memory.recommended_max_bytes() > 0) {
      const double share =
          static_cast<double>(memory.current_allocated_bytes()) /
          static_cast<double>(memory.recommended_max_bytes());
      absl::StrAppend(&line.text, " of ", Bytes(memory.recommended_max_bytes()),
                      " ", Gauge(share, kMemoryGauge, utf8),
                      absl::StrFormat(" %.0f%%", 100 * share));
      if (share > 1) line.look = Look::kBad;
      if (share > 0.9 && share <= 1) line.look = Look::kWarning;
    }
  }
  if (memory.has_peak_allocated_bytes()) {
    Add(line.text, "peak " + Bytes(memory.peak_allocated_bytes()));
  }
  if (memory.has_footprint_bytes()) {
    Add(line.text, "footprint " + Bytes(memory.footprint_bytes()));
  }
  if (job.estimated_memory_bytes() > 0) {
    Add(line.text, "estimated " + Bytes(job.estimated_memory_bytes()));
  }
  if (progress.has_device_utilization_ratio()) {
    Add(line.text, absl::StrFormat("%s busy %.0f%%", progress.device(),
                                   100 * progress.device_utilization_ratio()));
  } else if (!progress.device().empty()) {
    Add(line.text, "on " + progress.device());
  }
  return line;
}

void AddRemarks(const v1::Job& job, absl::Time now, std::vector<Line>* lines) {
  if (IsFinal(job.state())) {
    const bool failed = job.state() == v1::JOB_STATE_FAILED;
    const std::string reason =
        job.exit_reason().empty() ? "" : job.exit_reason() + ": ";
    if (!job.message().empty()) {
      lines->push_back({absl::StrCat("ended: ", reason, job.message()),
                        failed ? Look::kBad : Look::kPlain});
    }
  } else {
    if (job.cancel_requested()) {
      lines->push_back(
          {"is being cancelled: its worker was asked to stop", Look::kWarning});
    }
    if (job.has_pause()) {
      lines->push_back(
          {"paused: " + PauseText(job.pause(), now), Look::kWarning});
    }
    if (!job.hold().empty()) {
      lines->push_back({"held: " + job.hold(), Look::kWarning});
    }
    if (job.state() == v1::JOB_STATE_QUEUED && !job.message().empty()) {
      lines->push_back(
          {"the attempt before: " + job.message(), Look::kWarning});
    }
  }
  const std::string fallback = FallbackText(job.progress());
  if (!fallback.empty()) {
    lines->push_back({"ran on the CPU: " + fallback, Look::kWarning});
  }
}

}  // namespace

std::string Gauge(double share, int columns, bool utf8) {
  const int full = static_cast<int>(
      std::lround(std::clamp(share, 0.0, 1.0) * std::max(columns, 0)));
  std::string text;
  for (int i = 0; i < columns; ++i) {
    text += i < full ? (utf8 ? "█" : "#") : (utf8 ? "░" : ".");
  }
  return text;
}

std::vector<Line> JobLines(const Watched& watched, bool pinned, int columns,
                           bool utf8, absl::Time now, absl::TimeZone zone) {
  if (!watched.known) return {{absl::StrCat("job ", watched.id, "  asking")}};
  const v1::Job& job = watched.job;
  std::vector<Line> lines = {Title(watched, pinned),
                             ProgressLine(job, columns, utf8, now, zone)};
  if (job.has_progress()) {
    lines.push_back(SpeedLine(watched, columns, utf8));
    lines.push_back(MemoryLine(job, utf8));
  }
  AddRemarks(job, now, &lines);
  return lines;
}

std::vector<std::string> CurveLines(const Watched& watched, int columns,
                                    int rows, bool utf8) {
  const std::vector<Sample>& steps = watched.losses.steps();
  const std::vector<Sample>& evaluations = watched.losses.evaluations();
  if (rows < kFewestRows || columns < kFewestColumns ||
      (steps.empty() && evaluations.empty())) {
    return {};
  }
  const auto points = [](const std::vector<Sample>& samples) {
    std::vector<CurvePoint> result;
    result.reserve(samples.size());
    for (const Sample& sample : samples) {
      result.push_back({static_cast<double>(sample.step), sample.value});
    }
    return result;
  };
  Chart chart;
  chart.title = "loss by step";
  chart.counts_x = true;
  chart.curves.push_back({"each step", CurveStyle::kDots, points(steps)});
  if (steps.size() >= kFewestToSmooth) {
    chart.curves.push_back(
        {"smoothed", CurveStyle::kHeavy, points(Smoothed(steps))});
  }
  chart.curves.push_back(
      {"evaluations", CurveStyle::kMarks, points(evaluations)});
  return Draw(chart, columns, rows, utf8).lines;
}

}  // namespace mpsd::client::top
