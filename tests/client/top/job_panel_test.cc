// SPDX-License-Identifier: Apache-2.0
#include "client/top/job_panel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/text/format.h"

namespace mpsd::client::top {
namespace {

using testing::HasSubstr;
using testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1767323045);  // 03:04:05

Watched MakeWatched() {
  Watched watched("01KAH0000000000000000000AA");
  watched.known = true;
  v1::Job& job = watched.job;
  job.set_id(watched.id);
  job.set_name("moods");
  job.set_owner("ann");
  job.set_state(v1::JOB_STATE_RUNNING);
  v1::Progress& progress = *job.mutable_progress();
  progress.set_step(25);
  progress.set_total_steps(100);
  progress.set_epoch(0.75);
  progress.set_loss(1.5);
  progress.set_learning_rate(2e-4);
  progress.set_grad_norm(0.5);
  progress.set_step_seconds(0.25);
  progress.set_tokens_per_second(1234);
  progress.set_eta_seconds(600);
  progress.set_device("mps");
  return watched;
}

std::string Text(const Watched& watched, int columns = 80, bool utf8 = true) {
  std::string text;
  for (const Line& line :
       JobLines(watched, false, columns, utf8, kNow, absl::UTCTimeZone())) {
    text += line.text + "\n";
  }
  return text;
}

TEST(JobLines, TellsHowAJobDoes) {
  EXPECT_EQ(Text(MakeWatched()),
            "job 01KAH0000000000000000000AA  RUNNING  ann  moods\n"
            " 25% ████████░░░░░░░░░░░░░░░░░░░░░░  step 25/100  epoch 0.75  "
            "ETA 10m00s (03:14)\n"
            "loss 1.5000  step 250ms  1,234 tok/s  lr 0.0002\n"
            "memory  on mps\n");
}

TEST(JobLines, FitsTheSmallestScreen) {
  Watched watched = MakeWatched();
  watched.job.set_eval_loss_after(1.25);
  watched.step_seconds = watched.tokens_per_second = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const Line& line :
       JobLines(watched, false, 80, true, kNow, absl::UTCTimeZone())) {
    EXPECT_LE(Width(line.text), 80) << line.text;
  }
  EXPECT_THAT(Text(watched), HasSubstr("step 250ms ▁▃▅▆█  1,234 tok/s  lr"));
  EXPECT_THAT(Text(watched, 120),
              HasSubstr("1,234 tok/s ▁▂▃▄▅▆▇█  lr 0.0002  grad norm 0.5"));
}

TEST(JobLines, ComparesMemoryWithItsLimit) {
  Watched watched = MakeWatched();
  v1::DeviceMemory& memory = *watched.job.mutable_progress()->mutable_memory();
  memory.set_current_allocated_bytes(12'000'000'000);
  memory.set_recommended_max_bytes(24'000'000'000);
  memory.set_peak_allocated_bytes(13'000'000'000);
  memory.set_footprint_bytes(14'000'000'000);
  watched.job.mutable_progress()->set_device_utilization_ratio(0.97);
  EXPECT_THAT(Text(watched),
              HasSubstr("memory 12.0 GB of 24.0 GB ██████░░░░░░ 50%  peak 13.0 "
                        "GB  footprint 14.0 GB  mps busy 97%\n"));
  const auto look = [&] {
    return JobLines(watched, false, 80, true, kNow, absl::UTCTimeZone())[3]
        .look;
  };
  EXPECT_EQ(look(), Look::kPlain);
  memory.set_current_allocated_bytes(23'000'000'000);
  EXPECT_EQ(look(), Look::kWarning);
  memory.set_current_allocated_bytes(25'000'000'000);
  EXPECT_EQ(look(), Look::kBad);
}

TEST(JobLines, SaysWhyAJobWaits) {
  Watched watched = MakeWatched();
  watched.job.mutable_pause()->add_reasons(v1::PAUSE_REASON_THERMAL);
  watched.job.mutable_pause()->set_held(true);
  watched.job.mutable_pause()->mutable_since()->set_seconds(
      absl::ToUnixSeconds(kNow) - 125);
  watched.job.set_hold("the disk is full");
  watched.job.set_cancel_requested(true);
  const std::string text = Text(watched);
  EXPECT_THAT(text, HasSubstr("paused: held for 2m05s: too hot\n"));
  EXPECT_THAT(text, HasSubstr("held: the disk is full\n"));
  EXPECT_THAT(text, HasSubstr("is being cancelled"));
}

TEST(JobLines, SaysHowAJobEnded) {
  Watched watched = MakeWatched();
  watched.job.set_state(v1::JOB_STATE_FAILED);
  watched.job.set_exit_reason("OutOfMemory");
  watched.job.set_message("MPS out of memory");
  watched.job.mutable_end_time()->set_seconds(absl::ToUnixSeconds(kNow));
  const std::string text = Text(watched);
  EXPECT_THAT(text, HasSubstr("FAILED"));
  EXPECT_THAT(text, HasSubstr("ended 2026-01-02 03:04:05\n"));
  EXPECT_THAT(text, HasSubstr("ended: OutOfMemory: MPS out of memory\n"));
  EXPECT_THAT(text, Not(HasSubstr("ETA")));
}

TEST(JobLines, OfAJobWithoutAStep) {
  Watched watched("01KAH0000000000000000000AA");
  EXPECT_EQ(Text(watched), "job 01KAH0000000000000000000AA  asking\n");
  watched.known = true;
  watched.job.set_state(v1::JOB_STATE_QUEUED);
  watched.job.set_message("the worker crashed");
  EXPECT_THAT(Text(watched), HasSubstr("no step yet\n"));
  EXPECT_THAT(Text(watched), HasSubstr("the attempt before: the worker"));
}

TEST(JobLines, TakesNumbersOfAnyKind) {
  Watched watched = MakeWatched();
  v1::Progress& progress = *watched.job.mutable_progress();
  for (const double number : std::vector<double>{NAN, INFINITY, -1, 1e300}) {
    progress.set_loss(number);
    progress.set_eta_seconds(number);
    progress.set_step_seconds(number);
    progress.set_tokens_per_second(number);
    progress.set_epoch(number);
    EXPECT_THAT(Text(watched), HasSubstr("loss"));
  }
  progress.set_total_steps(0);
  progress.set_step(-5);
  progress.mutable_memory()->set_current_allocated_bytes(1);
  progress.mutable_memory()->set_recommended_max_bytes(0);
  EXPECT_THAT(Text(watched), HasSubstr("  0% "));
}

TEST(JobLines, WithoutUtf8) {
  Watched watched = MakeWatched();
  watched.step_seconds = {1, 2};
  for (const char c : Text(watched, 80, false)) EXPECT_EQ(c & 0x80, 0) << c;
}

TEST(CurveLines, DrawsLossesAndEvaluations) {
  Watched watched = MakeWatched();
  EXPECT_TRUE(CurveLines(watched, 80, 10, true).empty());
  for (int step = 1; step <= 100; ++step) {
    v1::JobEvent event;
    event.mutable_progress()->set_step(step);
    event.mutable_progress()->set_loss(2.0 / step);
    watched.losses.Add(event);
  }
  v1::JobEvent event;
  event.mutable_evaluated()->set_step(100);
  event.mutable_evaluated()->set_eval_loss(0.5);
  watched.losses.Add(event);
  const std::vector<std::string> lines = CurveLines(watched, 80, 12, true);
  EXPECT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[0], "loss by step");
  EXPECT_EQ(lines[1], "⠒⠢ each step   ━ smoothed   ◆ evaluations");
  for (const std::string& line : lines) EXPECT_LE(Width(line), 80);
  EXPECT_TRUE(CurveLines(watched, 80, 4, true).empty());
  EXPECT_TRUE(CurveLines(watched, 10, 12, true).empty());
}

TEST(Gauge, ShowsAShare) {
  EXPECT_EQ(Gauge(0.5, 4, true), "██░░");
  EXPECT_EQ(Gauge(0.5, 4, false), "##..");
  EXPECT_EQ(Gauge(7, 2, false), "##");
  EXPECT_EQ(Gauge(-7, 2, false), "..");
  EXPECT_EQ(Gauge(1, 0, true), "");
}

}  // namespace
}  // namespace mpsd::client::top
