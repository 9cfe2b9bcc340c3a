// SPDX-License-Identifier: Apache-2.0
#include "client/text/watch_screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/text/format.h"

namespace mpsd::client {
namespace {

// 2026-01-02 03:04:05 UTC.
const absl::Time kNow = absl::FromUnixSeconds(1767323045);

class WatchScreenTest : public testing::Test {
 protected:
  WatchScreenTest() {
    watched_.info.set_version("0.1.0");
    watched_.info.set_device("mps");
    watched_.info.set_disk_free_bytes(57'700'000'000);
    watched_.info.mutable_host()->set_on_battery(false);
    watched_.info.mutable_host()->set_memory_pressure(
        v1::MEMORY_PRESSURE_NORMAL);
    watched_.answered = kNow;
    viewer_.now = kNow;
    viewer_.zone = absl::UTCTimeZone();
  }

  void AddRunning() {
    watched_.info.set_running_jobs(1);
    v1::Job& job = watched_.job;
    job.set_id("01KAH0000000000000000000AA");
    job.set_name("moods");
    job.set_owner("ann");
    job.set_state(v1::JOB_STATE_RUNNING);
    job.set_attempt(2);
    job.set_eval_loss_before(2.5);
    v1::Progress& progress = *job.mutable_progress();
    progress.set_step(42);
    progress.set_total_steps(100);
    progress.set_epoch(1.25);
    progress.set_loss(1.5);
    progress.set_learning_rate(5e-5);
    progress.set_grad_norm(1.25);
    progress.set_tokens_per_second(1234);
    progress.set_eta_seconds(80);
    progress.set_device("mps");
    progress.set_device_utilization_ratio(0.97);
    progress.mutable_memory()->set_current_allocated_bytes(4'000'000'000);
    progress.mutable_memory()->set_recommended_max_bytes(48'000'000'000);
    progress.mutable_memory()->set_peak_allocated_bytes(5'100'000'000);
    progress.mutable_memory()->set_footprint_bytes(6'000'000'000);
    watched_.losses = {9, 8, 7, 6, 5, 4, 3, 2.5, 2, 1.5};
    AddEntry("01KAH0000000000000000000AA", "moods", "")
        .set_state(v1::JOB_STATE_RUNNING);
  }

  v1::QueueResponse::Entry& AddEntry(const std::string& id,
                                     const std::string& name,
                                     const std::string& why) {
    auto& entry = *watched_.queue.add_entries();
    entry.set_id(id);
    entry.set_name(name);
    entry.set_owner("bob");
    entry.set_why(why);
    entry.set_state(v1::JOB_STATE_QUEUED);
    return entry;
  }

  void AddQueue(int count) {
    watched_.info.set_queued_jobs(count);
    for (int i = 0; i < count; ++i) {
      AddEntry("01KAH000000000000000000B" + std::to_string(10 + i), "digits",
               i == 0 ? "next" : "after 01KAH0");
    }
  }

  std::string Screen(int columns, int rows) {
    viewer_.columns = columns;
    viewer_.rows = rows;
    const std::vector<std::string> lines = WatchScreen(watched_, viewer_);
    EXPECT_LT(std::ssize(lines), std::max(rows, 2));
    std::string text;
    for (const std::string& line : lines) {
      EXPECT_LE(Width(line), columns) << line;
      text += line + "\n";
    }
    return text;
  }

  Watched watched_;
  Viewer viewer_;
};

TEST_F(WatchScreenTest, NoJob) {
  EXPECT_EQ(Screen(80, 24), R"(03:04:05  0 running, 0 queued  mpsd 0.1.0 on mps
mains, memory pressure normal, 53.74 GiB of disk free

No job runs.
)");
  watched_.info.set_hold("drained by ann");
  EXPECT_EQ(Screen(40, 10), R"(03:04:05  0 running, 0 queued  mpsd 0.1…
jobs wait: drained by ann
No job runs.
)");
}

TEST_F(WatchScreenTest, OneRunsAndOthersWait) {
  AddRunning();
  AddQueue(2);
  EXPECT_EQ(Screen(80, 24), R"(03:04:05  1 running, 2 queued  mpsd 0.1.0 on mps
mains, memory pressure normal, 53.74 GiB of disk free

Job 01KAH0000000000000000000AA  moods  ann  attempt 2
 42% ━━━━━━━━━━━━────────────────── step 42/100  ETA 1m20s (03:05)  epoch 1.25
loss 1.5000 █▇▆▅▄▃▂▂▁▁  eval loss 2.5000
1,234 tok/s  lr 5e-05  grad norm 1.25  mps busy 97%
memory 3.73 GiB current, 44.70 GiB limit, 5.59 GiB footprint, 4.75 GiB peak

  1  00000B10  bob  digits  next
  2  00000B11  bob  digits  after 01KAH0
)");
  EXPECT_EQ(Screen(40, 10), R"(03:04:05  1 running, 2 queued  mpsd 0.1…
Job 01KAH0000000000000000000AA  moods  …
 42% step 42/100  ETA 1m20s (03:05)  ep…
loss 1.5000 █▇▆▅▄▃▂▂▁▁  eval loss 2.5000
1,234 tok/s  lr 5e-05  grad norm 1.25  …
memory 3.73 GiB current, 44.70 GiB limi…
  1  00000B10  bob  digits  next
  2  00000B11  bob  digits  after 01KAH0
)");
}

TEST_F(WatchScreenTest, Paused) {
  AddRunning();
  v1::Pause& pause = *watched_.job.mutable_pause();
  pause.add_reasons(v1::PAUSE_REASON_THERMAL);
  pause.set_held(true);
  pause.mutable_since()->set_seconds(absl::ToUnixSeconds(kNow) - 125);
  *watched_.info.mutable_pause() = pause;
  for (const auto& [columns, rows] : {std::pair{80, 24}, std::pair{40, 10}}) {
    EXPECT_TRUE(
        Screen(columns, rows).ends_with("\nPAUSED for 2m05s: too hot\n"))
        << Screen(columns, rows);
  }
  // Between two jobs the daemon says why it waits.
  watched_.job.Clear();
  EXPECT_NE(Screen(80, 24).find("\nPAUSED for 2m05s: too hot\n"),
            std::string::npos);
}

TEST_F(WatchScreenTest, AQueueThatIsLongerThanTheScreen) {
  AddRunning();
  AddQueue(30);
  watched_.queue.set_more(5);
  const std::string text = Screen(80, 24);
  EXPECT_TRUE(
      text.ends_with(" 13  00000B22  bob  digits  after 01KAH0\n"
                     "and 22 more wait\n"))
      << text;
}

TEST_F(WatchScreenTest, AJobWithoutAStepAndWithAReason) {
  AddRunning();
  watched_.job.clear_progress();
  watched_.job.set_cancel_requested(true);
  watched_.job.set_hold("its end cannot be stored");
  watched_.job.add_warnings("old");
  watched_.job.add_warnings("padding takes half of the time");
  EXPECT_NE(Screen(80, 24).find("\nno step yet\n"
                                "held: its end cannot be stored\n"
                                "cancelling\n"
                                "warning: padding takes half of the time\n"),
            std::string::npos)
      << Screen(80, 24);
}

TEST_F(WatchScreenTest, ADaemonThatDoesNotAnswer) {
  AddRunning();
  watched_.lost = "Connection refused";
  watched_.answered = kNow - absl::Seconds(3);
  const std::string text = Screen(80, 24);
  EXPECT_TRUE(text.starts_with(
      "NO ANSWER for 3.0s, trying again: Connection refused\n"))
      << text;
  EXPECT_NE(text.find("step 42/100"), std::string::npos);
}

TEST_F(WatchScreenTest, FitsEveryTerminal) {
  AddRunning();
  AddQueue(30);
  watched_.job.set_name("気分🚀気分🚀気分🚀気分🚀気分🚀気分🚀気分🚀気分🚀");
  for (int columns = 1; columns < 130; columns += 3) {
    for (int rows = 0; rows < 50; ++rows) Screen(columns, rows);
  }
}

TEST_F(WatchScreenTest, NamesDoNotSteerTheTerminal) {
  AddRunning();
  watched_.job.set_name("a\x1b[2J\r\nb\u202e\u009b");
  watched_.job.add_warnings("\x1b]0;title\x07");
  AddEntry("01KAH0000000000000000000CC", "\x1b[31mred", "why\x9b")
      .set_owner("eve\b\b\b");
  watched_.info.set_hold("\x1b[1;1H");
  watched_.lost =
      "\x1b"
      "c";
  for (const bool utf8 : {true, false}) {
    viewer_.utf8 = utf8;
    const std::string text = Screen(300, 60);
    EXPECT_NE(text.find("  a\\x1b[2J  b\\u202e\\u009b  ann  attempt 2\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("eve\\x08\\x08\\x08  \\x1b[31mred  why\\x9b\n"),
              std::string::npos)
        << text;
    EXPECT_TRUE(std::none_of(text.begin(), text.end(), [&](char c) {
      return (c >= 0 && c < ' ' && c != '\n') || c == 0x7f ||
             (!utf8 && (c & 0x80) != 0);
    })) << text;
  }
}

using Points = std::vector<LossPoint>;

constexpr double kLargestValue = std::numeric_limits<double>::max();

std::string Text(const Points& steps, const Points& evaluations, int columns,
                 int rows, bool utf8) {
  std::string text;
  for (const std::string& line :
       DrawLosses("t", steps, evaluations, columns, rows, utf8)) {
    text += line + "\n";
  }
  return text;
}

// A loss that falls from 4 to 1 and wavers.
Points Falling() {
  Points points;
  for (int step = 1; step <= 100; ++step) {
    points.push_back({step, 1 + 3.0 / step + (step % 2 == 0 ? 0.4 : -0.4)});
  }
  return points;
}

TEST(LossChartTest, Drawings) {
  EXPECT_EQ(Text(Falling(), {{50, 2}, {100, 1.5}}, 50, 12, false), R"(t
. loss  o eval loss
   3.6+.
      |.
      |.
      |..
      | ....                o
      | .........................................o
      |  .........................................
0.6303+     ......................................
      +-------------------------------------------
       1                                       100
)");
  EXPECT_EQ(Text(Falling(), {{50, 2}, {100, 1.5}}, 1, 1, true), R"(t
   3.6┤⣇
0.6303┤⠸⢷⣶⣶⣶⣶◆⣶⣶⣶⣶⣶◆
      └─────────────
       1         100
)");
  EXPECT_EQ(Text({{7, 3}}, {}, 20, 6, true), R"(t
 │
3┤         ⠂
 │
 └──────────────────
  7                7
)");
  EXPECT_EQ(Text({{1, 2.5}, {2, 2.5}, {3, 2.5}}, {}, 24, 6, false), R"(t
   |
2.5+....................
   |
   +--------------------
    1                  3
)");
  EXPECT_EQ(Text({{0, -kLargestValue}, {1, kLargestValue}}, {}, 24, 6, true),
            R"(t
 1.798e+308┤        ⣀⠤⠒⠉
           │    ⣀⠤⠒⠉
-1.798e+308┤⣀⠤⠒⠉
           └────────────
            0          1
)");
  EXPECT_EQ(Text({{0, 1000.0001}, {1, 1000.0002}}, {}, 40, 6, true), R"(t
1000.0002┤                    ⢀⣀⣀⠤⠤⠔⠒⠒⠊⠉
         │         ⢀⣀⣀⡠⠤⠤⠒⠒⠊⠉⠉⠁
1000.0001┤⣀⡠⠤⠤⠔⠒⠒⠉⠉⠁
         └──────────────────────────────
          0                            1
)");
  EXPECT_EQ(Text({}, {{3, NAN}}, 20, 5, true), R"(t
0┤
 │
 └──────────────────
  0                0
)");
  EXPECT_EQ(
      Text({{0, 1}, {1, 1}, {2, NAN}, {3, 1}, {4, INFINITY}}, {}, 20, 5, true),
      R"(t
1┤⣀⣀⣀⣀⣀⣀⡀          ⢀
 │
 └──────────────────
  0                3
)");
}

TEST(LossChartTest, AMillionPointsKeepTheirExtremes) {
  Points points;
  for (int i = 0; i < 1'000'000; ++i) points.push_back({i, 5});
  points[123'456].loss = 10;
  points[777'777].loss = 0;
  EXPECT_EQ(Text(points, {}, 40, 8, true), R"(t
10┤    ⢸
  │    ⢸
  │⠒⠒⠒⠒⠚⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⢲⠒⠒⠒⠒⠒⠒⠒⠒
  │                            ⢸
 0┤                            ⢸
  └─────────────────────────────────────
   0                             999,999
)");
}

TEST(LossChartTest, OfTheSizeThatIsAskedFor) {
  Points points = Falling();
  for (const double extreme : {1.0, -1e300, 1.0000000000000002}) {
    points[3].loss = extreme;
    for (int columns = 20; columns <= 130; columns += 11) {
      for (int rows = 5; rows <= 40; ++rows) {
        for (const bool utf8 : {true, false}) {
          const auto lines =
              DrawLosses("t", points, {{5, 1}}, columns, rows, utf8);
          EXPECT_EQ(std::ssize(lines), rows);
          for (const std::string& line : lines) {
            EXPECT_LE(Width(line), columns) << line;
          }
        }
      }
    }
  }
}

// Names of jobs are their users'.
TEST(LossChartTest, TheTitleDoesNotSteerTheTerminal) {
  const char title[] = "naïve\x1b[2J\n\u202e\xff";
  EXPECT_EQ(DrawLosses(title, Falling(), {}, 60, 12, true)[0],
            "naïve\\x1b[2J \\u202e\\xff");
  for (const std::string& line :
       DrawLosses(title, Falling(), {{1, 2}}, 60, 12, false)) {
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) {
      return c >= ' ' && c <= '~';
    })) << line;
  }
}

}  // namespace
}  // namespace mpsd::client
