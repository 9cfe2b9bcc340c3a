// SPDX-License-Identifier: Apache-2.0
#include "client/top/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client::top {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kA[] = "01KAH0000000000000000000AA";
const absl::Time kNow = absl::FromUnixSeconds(1767323045);  // 03:04:05

std::string Text(const Frame& frame) {
  std::string text;
  for (int row = 0; row < frame.size().rows; ++row) {
    text += frame.Row(row) + "\n";
  }
  return text;
}

Viewer At(int columns, int rows, bool utf8 = true) {
  return {{columns, rows}, utf8, kNow, absl::UTCTimeZone()};
}

Key Character(char32_t c) { return {.kind = Key::kCharacter, .character = c}; }

v1::Job MakeJob(const std::string& id, v1::JobState state) {
  v1::Job job;
  job.set_id(id);
  job.set_name("moods");
  job.set_owner("ann");
  job.set_state(state);
  job.mutable_create_time()->set_seconds(absl::ToUnixSeconds(kNow) - 125);
  return job;
}

Answered Answer() {
  Answered answer;
  answer.time = kNow;
  v1::InfoResponse& info = answer.info;
  info.set_version("0.1.0");
  info.set_device("mps");
  info.set_running_jobs(1);
  info.set_queued_jobs(2);
  info.set_running_job_id(kA);
  info.set_disk_free_bytes(12'000'000'000);
  info.mutable_start_time()->set_seconds(absl::ToUnixSeconds(kNow) - 7200);
  info.mutable_host()->set_thermal_level(v1::THERMAL_LEVEL_NOMINAL);
  info.mutable_host()->set_gpu_utilization_ratio(0.97);
  v1::Job job = MakeJob(kA, v1::JOB_STATE_RUNNING);
  job.mutable_progress()->set_step(100);
  job.mutable_progress()->set_total_steps(200);
  job.mutable_progress()->set_loss(0.5);
  answer.running = {job};
  return answer;
}

// A running job with a curve, and some more.
Model MakeModel(int jobs = 3) {
  Model model("unix:/x", kNow);
  Listed listed;
  listed.rows = {RowOf(MakeJob(kA, v1::JOB_STATE_RUNNING))};
  for (int i = 1; i < jobs; ++i) {
    v1::Job job =
        MakeJob("01KAH" + std::to_string(1'000'000 + i), v1::JOB_STATE_QUEUED);
    job.set_queue_position(i - 1);
    job.set_name("job " + std::to_string(i));
    listed.rows.push_back(RowOf(job));
  }
  model.Apply(listed);
  model.Apply(Answer());
  for (int step = 1; step <= 100; ++step) {
    ShownEvent event{kA, {}};
    *event.event.mutable_progress() = Answer().running[0].progress();
    event.event.mutable_progress()->set_step(step);
    event.event.mutable_progress()->set_loss(50.0 / step);
    model.Apply(event);
  }
  return model;
}

TEST(View, ShowsMachineJobCurveAndQueueOnTheSmallestScreen) {
  const Frame frame = Render(MakeModel(), At(80, 24));
  EXPECT_EQ(frame.Row(0),
            "03:04:05  1 running, 2 queued  mpsd 0.1.0 on mps, up 2h00m  "
            "unix:/x");
  EXPECT_EQ(frame.Row(1), "heat nominal, GPU busy 97%, 12.0 GB of disk free");
  EXPECT_THAT(frame.Row(2), HasSubstr("RUNNING  ann  moods"));
  EXPECT_THAT(frame.Row(3), HasSubstr("step 100/200"));
  EXPECT_EQ(frame.Row(6), "loss by step");
  EXPECT_EQ(frame.Row(15), "jobs 3 of 3, by queue");
  EXPECT_EQ(frame.Row(16),
            "  ID       STATE        STEP        LOSS    AGE    OWNER    NAME");
  EXPECT_EQ(frame.Row(17),
            "> 000000AA RUNNING      100/200     0.5000  2m05s  ann      "
            "moods");
  EXPECT_EQ(frame.Row(18),
            "  H1000001 QUEUED 1     -           -       2m05s  ann      "
            "job 1");
  EXPECT_EQ(frame.at(40, 17).look, Look::kSelected);
  EXPECT_THAT(frame.Row(23), HasSubstr("c cancel  q quit"));
}

TEST(View, ShowsMoreOnALargeScreen) {
  v1::Job failed = MakeJob("01KAH9", v1::JOB_STATE_FAILED);
  failed.set_message("MPS out of memory");
  Model model("unix:/x", kNow);
  model.Apply(Listed{{RowOf(failed)}, true});
  const std::string text = Text(Render(model, At(200, 60)));
  EXPECT_THAT(text, HasSubstr("PRIORITY"));
  EXPECT_THAT(text, HasSubstr("TOK/S"));
  EXPECT_THAT(text, HasSubstr("MPS out of memory"));
  EXPECT_THAT(text, HasSubstr("jobs 1 of 1+, by queue"));
  EXPECT_THAT(text, HasSubstr("no job runs"));
}

TEST(View, DrawsWithinEverySize) {
  for (const int jobs : {0, 1, 100}) {
    Model model = jobs == 0 ? Model("unix:/x", kNow) : MakeModel(jobs);
    for (const char32_t mode : {U'x', U'l', U'?', U'/', U'c'}) {
      model.Press(Character(mode));
      for (const int columns : {1, 20, 79, 80, 81, 133, 500}) {
        for (const int rows : {1, 2, 23, 24, 25, 100}) {
          const Frame frame = Render(model, At(columns, rows));
          EXPECT_EQ(frame.size(), (Size{columns, rows}));
          EXPECT_GE(PageOf(model, At(columns, rows)), 1);
        }
      }
      model.Press({.kind = Key::kEscape});
    }
  }
}

TEST(View, SaysThatAScreenIsTooSmall) {
  for (const Size& size : {Size{79, 24}, Size{80, 23}, Size{40, 10}}) {
    const Frame frame = Render(MakeModel(), At(size.columns, size.rows));
    EXPECT_THAT(frame.Row(0), HasSubstr("top needs 80x24"));
    EXPECT_THAT(Text(frame), HasSubstr("mpsctl watch"));
    EXPECT_THAT(Text(frame), Not(HasSubstr("RUNNING")));
  }
}

TEST(View, IsAsciiWithoutUtf8) {
  Model model = MakeModel();
  for (const char32_t mode : {U'x', U'l', U'?', U'/', U'c'}) {
    model.Press(Character(mode));
    for (const char c : Text(Render(model, At(120, 40, false)))) {
      EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << int{c};
    }
    model.Press({.kind = Key::kEscape});
  }
  const std::string text = Text(Render(MakeModel(), At(120, 40, false)));
  EXPECT_THAT(text, Not(HasSubstr("??")));
  EXPECT_THAT(text, HasSubstr("####"));
}

TEST(View, KeepsTheSelectedJobInSight) {
  Model model = MakeModel(1000);
  const Viewer viewer = At(80, 24);
  const int page = PageOf(model, viewer);
  EXPECT_EQ(page, 6);
  for (const int place : {0, 1, 5, 500, 998, 999}) {
    model.Press({.kind = Key::kHome});
    for (int i = 0; i < place; ++i) model.Press({.kind = Key::kDown});
    const std::string text = Text(Render(model, viewer));
    EXPECT_THAT(text,
                HasSubstr("\n> " + model.list().selected()->id.substr(
                                       model.list().selected()->id.size() - 8)))
        << place;
    if (place > 500) {
      EXPECT_THAT(text, HasSubstr("job 999\n"));
    }
  }
}

TEST(View, SaysThatTheDaemonIsAway) {
  Model model = MakeModel();
  model.Apply(Lost{"connection refused\x1b[31m"});
  Viewer viewer = At(80, 24);
  viewer.now = kNow + absl::Seconds(12);
  const Frame frame = Render(model, viewer);
  EXPECT_EQ(frame.Row(0),
            "NO ANSWER for 12s, trying again: connection refused\\x1b[31m");
  EXPECT_EQ(frame.at(0, 0).look, Look::kBad);
  EXPECT_THAT(Text(frame), HasSubstr("> 000000AA"));
  model.Press(Character('l'));
  EXPECT_THAT(Text(Render(model, viewer)), HasSubstr("NO ANSWER for 12s"));
}

TEST(View, SaysWhyTheQueueIsHeldAndJobsPause) {
  Model model = MakeModel(50);
  Answered answer = Answer();
  answer.info.set_hold("1.0 GB is free");
  answer.info.set_hold_reason("disk");
  answer.info.mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  answer.running[0].set_hold("its end is not stored");
  answer.running[0].mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  answer.running[0].set_cancel_requested(true);
  (*answer.running[0]
        .mutable_progress()
        ->mutable_cpu_fallback_ops())["aten::a"] = 7;
  model.Apply(answer);
  const std::string text = Text(Render(model, At(80, 24)));
  EXPECT_THAT(text, HasSubstr("jobs wait: disk: 1.0 GB is free\n"));
  EXPECT_THAT(text, HasSubstr("paused: on battery or in Low Power Mode\n"));
  EXPECT_THAT(text, HasSubstr("aten::a 7 times"));
  // Jobs are seen all the same.
  EXPECT_THAT(text, HasSubstr("\n> 000000AA CANCELLING"));
  EXPECT_GE(PageOf(model, At(80, 24)), 4);
}

TEST(View, HostileNamesMoveNothing) {
  v1::Job job = MakeJob(kA, v1::JOB_STATE_QUEUED);
  job.set_name(
      "\x1b]0;title\x07\x1b[2J\r\n\xe2\x80\xae"
      "evil\xcc\x81 שלום 気気");
  job.set_owner("a\x1b[Hb\x9b\xff\nc");
  job.set_hold(std::string(10'000, '\x1b'));
  Model model("unix:/x", kNow);
  model.Apply(Listed{
      {RowOf(job), RowOf(MakeJob("01KAHZ", v1::JOB_STATE_SUCCEEDED))}, false});
  for (const bool utf8 : {true, false}) {
    for (const int columns : {80, 200}) {
      const Frame frame = Render(model, At(columns, 24, utf8));
      for (int row = 0; row < 24; ++row) {
        for (int column = 0; column < columns; ++column) {
          const Cell& cell = frame.at(column, row);
          if (cell.columns == 0) continue;
          EXPECT_EQ(ColumnsOf(cell.character), cell.columns);
        }
      }
      // The row below stands where it should.
      EXPECT_THAT(Text(frame), HasSubstr("\n  01KAHZ   SUCCEEDED   "));
    }
  }
}

TEST(View, AsksBeforeACancel) {
  Model model = MakeModel();
  model.Press(Character('c'));
  const Frame frame = Render(model, At(80, 24));
  EXPECT_EQ(frame.Row(23),
            "Cancel job 01KAH0000000000000000000AA (RUNNING)? y/n  moods");
  model.Press(Character('y'));
  model.Apply(Cancelled{true, "Job x is being cancelled."});
  EXPECT_EQ(Render(model, At(80, 24)).Row(23), "Job x is being cancelled.");
}

TEST(View, ShowsTheFilterAndWhatMatches) {
  Model model = MakeModel();
  model.Press(Character('/'));
  for (const char c : {'z', 'z'}) model.Press(Character(c));
  std::string text = Text(Render(model, At(80, 24)));
  EXPECT_THAT(text, HasSubstr("/zz_   Enter keeps"));
  EXPECT_THAT(text, HasSubstr("jobs 0 of 3, by queue, with \"zz\""));
  EXPECT_THAT(text, HasSubstr("No job matches; Esc shows all."));
  model.Apply(Listed{});
  EXPECT_THAT(Text(Render(model, At(80, 24))), HasSubstr("No jobs. Queue one"));
}

TEST(View, SaysHowTheListIsSorted) {
  Model model = MakeModel();
  model.Press(Character('s'));
  model.Press(Character('r'));
  model.Press(Character('e'));
  EXPECT_THAT(Text(Render(model, At(80, 24))),
              HasSubstr("jobs 3 of 3, by age reversed, ended ones hidden\n"));
}

TEST(View, ShowsTheEndOfALog) {
  Model model = MakeModel();
  model.Press(Character('l'));
  EXPECT_THAT(Text(Render(model, At(80, 24))), HasSubstr("nothing in it yet"));
  model.Apply(LogData{kA, "first\n" + std::string(100, 'x') + "\nlast\n"});
  Frame frame = Render(model, At(80, 24));
  EXPECT_EQ(frame.Row(0), std::string("log of job ") + kA);
  EXPECT_EQ(frame.Row(1), "first");
  EXPECT_EQ(frame.Row(2), std::string(80, 'x'));
  EXPECT_EQ(frame.Row(3), std::string(20, 'x'));
  EXPECT_EQ(frame.Row(4), "last");
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "line " + std::to_string(i) + "\n";
  model.Apply(LogData{kA, lines});
  frame = Render(model, At(80, 24));
  EXPECT_EQ(frame.Row(22), "line 99");
  EXPECT_EQ(frame.Row(1), "line 78");
  model.set_page(PageOf(model, At(80, 24)));
  model.Press({.kind = Key::kPageUp});
  frame = Render(model, At(80, 24));
  EXPECT_EQ(frame.Row(22), "line 77");
  EXPECT_THAT(frame.Row(0), HasSubstr("22 lines above its end"));
  model.Apply(LogEnded{kA, "there is no such job"});
  EXPECT_EQ(Render(model, At(80, 24)).Row(22), "there is no such job");
}

TEST(View, ListsItsKeys) {
  Model model = MakeModel();
  model.Press(Character('?'));
  const std::string text = Text(Render(model, At(80, 24)));
  for (const char* key : {"PgUp", "Enter", "Esc", "l  ", "c  ", "s S", "r  ",
                          "/  ", "e  ", "Ctrl-L", "q  "}) {
    EXPECT_THAT(text, HasSubstr(key));
  }
}

}  // namespace
}  // namespace mpsd::client::top
