// SPDX-License-Identifier: Apache-2.0
#include "client/top/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <deque>
#include <functional>

namespace mpsd::client::top {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kA[] = "01KAH0000000000000000000AA";

class Clock final : public base::Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + passed; }
  absl::Duration Monotonic() const override { return passed; }
  absl::Duration passed = absl::Seconds(5);
};

// Does what a script says, one entry a Wait: a key, an update, or nothing until
// the time is up.
class FakeTerminal final : public Screen, public Source {
 public:
  explicit FakeTerminal(Clock* clock) : clock_(*clock) {}

  Size size() override { return {80, 24}; }
  bool utf8() const override { return true; }
  void Show(const Frame& frame) override {
    shown.push_back(frame.Row(23));
    drawn.push_back(clock_.passed);
  }
  void Redraw() override { ++redrawn; }
  void Flush() override { ++flushed; }
  std::optional<Key> Wait(absl::Duration timeout) override {
    waited.push_back(timeout);
    if (script.empty()) return Key{.kind = Key::kSignal, .signal = SIGTERM};
    const auto step = script.front();
    script.pop_front();
    if (step) return step();
    clock_.passed += timeout;
    return std::nullopt;
  }
  void Wake() override {}
  void Suspend() override { ++suspended; }

  std::vector<Update> Take() override { return std::exchange(updates, {}); }
  void ShowJob(const std::string& id) override { jobs.push_back(id); }
  void ShowLog(const std::string& id) override { logs.push_back(id); }
  void Cancel(const std::string& id) override { cancelled.push_back(id); }

  void Press(Key key) {
    script.push_back([key] { return key; });
  }
  void Press(char32_t c) {
    Press(Key{.kind = Key::kCharacter, .character = c});
  }
  void Pass() { script.push_back(nullptr); }
  void Send(Update update, absl::Duration after) {
    script.push_back([=, this]() -> std::optional<Key> {
      clock_.passed += after;
      updates.push_back(update);
      return std::nullopt;
    });
  }

  std::deque<std::function<std::optional<Key>()>> script;
  std::vector<Update> updates;
  std::vector<std::string> shown, jobs, logs, cancelled;
  std::vector<absl::Duration> drawn, waited;
  int redrawn = 0, suspended = 0, flushed = 0;

 private:
  Clock& clock_;
};

class LoopTest : public testing::Test {
 protected:
  LoopTest() : terminal_(&clock_), model_("unix:/x", clock_.Now()) {
    v1::Job job;
    job.set_id(kA);
    job.set_state(v1::JOB_STATE_RUNNING);
    model_.Apply(Listed{{RowOf(job)}, false});
  }
  Ending Run() {
    return Loop(model_, terminal_, terminal_, clock_, absl::UTCTimeZone());
  }

  Clock clock_;
  FakeTerminal terminal_;
  Model model_;
};

TEST_F(LoopTest, Quits) {
  terminal_.Press('q');
  EXPECT_EQ(Run().why, Ending::kQuit);
  EXPECT_EQ(terminal_.drawn.size(), 1u);
}

TEST_F(LoopTest, EndsByASignal) {
  const Ending ending = Run();
  EXPECT_EQ(ending.why, Ending::kSignal);
  EXPECT_EQ(ending.signal, SIGTERM);
}

TEST_F(LoopTest, EndsByCtrlC) {
  terminal_.Press(Key{.kind = Key::kInterrupt});
  EXPECT_EQ(Run().why, Ending::kInterrupt);
}

TEST_F(LoopTest, DrawsOnceASecondForTheClock) {
  for (int i = 0; i < 3; ++i) terminal_.Pass();
  Run();
  EXPECT_EQ(terminal_.drawn.size(), 4u);
  EXPECT_THAT(terminal_.waited,
              ElementsAre(absl::Seconds(1), absl::Seconds(1), absl::Seconds(1),
                          absl::Seconds(1)));
}

TEST_F(LoopTest, DrawsTenTimesASecondHoweverManyUpdatesCome) {
  for (int i = 0; i < 1000; ++i) {
    terminal_.Send(Lost{"away"}, absl::Milliseconds(1));
  }
  Run();
  EXPECT_GE(terminal_.drawn.size(), 9u);
  EXPECT_LE(terminal_.drawn.size(), 12u);
}

TEST_F(LoopTest, AnswersAKeyAtOnce) {
  terminal_.Press('c');
  terminal_.Press('n');
  Run();
  // Without any time passing.
  ASSERT_EQ(terminal_.shown.size(), 3u);
  EXPECT_THAT(terminal_.shown[1], HasSubstr("y/n"));
  EXPECT_EQ(terminal_.drawn[2], terminal_.drawn[0]);
}

TEST_F(LoopTest, AsksForWhatIsShown) {
  Answered answer;
  answer.info.set_running_job_id(kA);
  terminal_.updates = {answer};
  terminal_.Press('l');
  terminal_.Press('q');
  Run();
  EXPECT_THAT(terminal_.jobs, ElementsAre(kA));
  EXPECT_THAT(terminal_.logs, ElementsAre(kA, ""));
}

TEST_F(LoopTest, CancelsAfterTheQuestion) {
  terminal_.Press('c');
  terminal_.Press('y');
  Run();
  EXPECT_THAT(terminal_.cancelled, ElementsAre(kA));
  EXPECT_EQ(terminal_.flushed, 1);  // before the question
}

TEST_F(LoopTest, SuspendsAndDrawsAnew) {
  terminal_.Press(Key{.kind = Key::kSuspend});
  terminal_.Press(Key{.kind = Key::kResize});
  Run();
  EXPECT_EQ(terminal_.suspended, 1);
  EXPECT_EQ(terminal_.redrawn, 1);
  EXPECT_EQ(terminal_.drawn.size(), 3u);
}

}  // namespace
}  // namespace mpsd::client::top
