// SPDX-License-Identifier: Apache-2.0
#include "client/top/model.h"

#include <gtest/gtest.h>

namespace mpsd::client::top {
namespace {

constexpr char kA[] = "01KAH0000000000000000000AA";
constexpr char kB[] = "01KAH0000000000000000000BB";
const absl::Time kNow = absl::FromUnixSeconds(1000);

v1::Job MakeJob(const std::string& id, v1::JobState state) {
  v1::Job job;
  job.set_id(id);
  job.set_state(state);
  return job;
}

Answered Running(const std::string& id) {
  Answered answer;
  answer.info.set_running_job_id(id);
  answer.time = kNow;
  if (!id.empty()) answer.running = {MakeJob(id, v1::JOB_STATE_RUNNING)};
  return answer;
}

ShownEvent Step(const std::string& id, int64_t step) {
  ShownEvent event{id, {}};
  event.event.mutable_progress()->set_step(step);
  event.event.mutable_progress()->set_total_steps(100);
  event.event.mutable_progress()->set_loss(2);
  event.event.mutable_progress()->set_step_seconds(0.5);
  return event;
}

Key Character(char32_t c) { return {.kind = Key::kCharacter, .character = c}; }
Key Named(Key::Kind kind) { return {.kind = kind}; }

// A model with a running job and a queued one.
Model Two() {
  Model model("unix:/x", kNow);
  v1::Job queued = MakeJob(kB, v1::JOB_STATE_QUEUED);
  queued.set_name("moods");
  queued.set_queue_position(0);
  model.Apply(Listed{{RowOf(MakeJob(kA, v1::JOB_STATE_RUNNING)), RowOf(queued)},
                     false});
  model.Apply(Running(kA));
  return model;
}

TEST(Model, ShowsTheRunningJob) {
  Model model("unix:/x", kNow);
  EXPECT_EQ(model.shown_id(), "");
  EXPECT_EQ(model.watched(), nullptr);
  model.Apply(Running(kA));
  EXPECT_EQ(model.shown_id(), kA);
  EXPECT_TRUE(model.watched()->known);
  model.Apply(Step(kA, 1));
  EXPECT_EQ(model.watched()->losses.steps().size(), 1u);
  EXPECT_EQ(model.watched()->job.progress().step(), 1);
  // It stays when no job follows, and gives way to the next that runs.
  model.Apply(Running(""));
  EXPECT_EQ(model.shown_id(), kA);
  EXPECT_EQ(model.watched()->losses.steps().size(), 1u);
  model.Apply(Running(kB));
  EXPECT_EQ(model.shown_id(), kB);
  EXPECT_TRUE(model.watched()->losses.steps().empty());
  model.Apply(Step(kA, 2));  // late
  EXPECT_TRUE(model.watched()->losses.steps().empty());
}

TEST(Model, FollowsStateAndEvaluationsOfTheShownJob) {
  Model model = Two();
  ShownEvent event{kA, {}};
  event.event.mutable_evaluated()->set_eval_loss(3);
  model.Apply(event);
  event.event.mutable_evaluated()->set_step(5);
  event.event.mutable_evaluated()->set_eval_loss(2);
  model.Apply(event);
  event.event.mutable_state()->set_state(v1::JOB_STATE_FAILED);
  event.event.mutable_state()->set_message("the disk is full");
  model.Apply(event);
  const v1::Job& job = model.watched()->job;
  EXPECT_EQ(job.eval_loss_before(), 3);
  EXPECT_EQ(job.eval_loss_after(), 2);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.message(), "the disk is full");
}

TEST(Model, ShowsTheChosenJobUntilEscape) {
  Model model = Two();
  model.Press(Named(Key::kDown));
  model.Press(Named(Key::kEnter));
  EXPECT_TRUE(model.pinned());
  EXPECT_EQ(model.shown_id(), kB);
  EXPECT_FALSE(model.watched()->known);
  model.Apply(ShownJob{MakeJob(kB, v1::JOB_STATE_QUEUED)});
  EXPECT_TRUE(model.watched()->known);
  model.Apply(Running(kA));
  EXPECT_EQ(model.shown_id(), kB);
  model.Press(Named(Key::kEscape));
  EXPECT_EQ(model.shown_id(), kA);
}

TEST(Model, ForgetsAJobThatWasDeleted) {
  Model model = Two();
  model.Press(Named(Key::kDown));
  model.Press(Named(Key::kEnter));
  model.Apply(NotShown{kB});
  EXPECT_EQ(model.shown_id(), kA);
  model.Apply(NotShown{kA});
  EXPECT_EQ(model.shown_id(), "");
  EXPECT_EQ(model.watched(), nullptr);
}

TEST(Model, KeepsAFewOfManySteps) {
  Model model = Two();
  for (int i = 1; i <= 20'000; ++i) model.Apply(Step(kA, i));
  EXPECT_LE(model.watched()->losses.steps().size(), Watched::kMostSteps);
  EXPECT_EQ(model.watched()->step_seconds.size(), Watched::kLastSteps);
  EXPECT_EQ(model.list().at(0).step, 20'000);
}

TEST(Model, SaysThatTheDaemonIsAwayUntilItAnswers) {
  Model model = Two();
  model.Apply(Lost{"connection refused"});
  EXPECT_EQ(model.lost(), "connection refused");
  EXPECT_EQ(model.answered(), kNow);
  EXPECT_EQ(model.list().size(), 2u);
  model.Apply(Running(""));
  EXPECT_EQ(model.lost(), "");
}

TEST(Model, CancelsOnlyAfterYes) {
  Model model = Two();
  model.Press(Named(Key::kDown));
  EXPECT_EQ(model.Press(Character('c')).kind, Model::Wish::kAnswer);
  EXPECT_EQ(model.mode(), Model::Mode::kQuestion);
  EXPECT_EQ(model.asked().id, kB);
  // The list may change meanwhile: the question is still about that job.
  model.Apply(Listed{{RowOf(MakeJob(kA, v1::JOB_STATE_RUNNING))}, false});
  const Model::Wish wish = model.Press(Character('y'));
  EXPECT_EQ(wish.kind, Model::Wish::kCancel);
  EXPECT_EQ(wish.id, kB);
  EXPECT_EQ(model.mode(), Model::Mode::kList);
  model.Apply(Cancelled{false, "had ended before"});
  EXPECT_EQ(model.message(), "had ended before");
  EXPECT_FALSE(model.message_is_good());
  model.Press(Named(Key::kDown));
  EXPECT_EQ(model.message(), "");
}

TEST(Model, TakesEveryOtherKeyForNo) {
  for (const Key& no :
       {Character('n'), Character('q'), Character('c'), Character(' '),
        Named(Key::kEscape), Named(Key::kEnter), Named(Key::kDown)}) {
    Model model = Two();
    model.Press(Character('c'));
    EXPECT_EQ(model.Press(no).kind, Model::Wish::kNone);
    EXPECT_EQ(model.mode(), Model::Mode::kList);
  }
}

TEST(Model, AsksNothingWithoutAJob) {
  Model model("unix:/x", kNow);
  model.Apply(Listed{});
  for (const char c : {'c', 'l'}) {
    model.Press(Character(c));
    EXPECT_EQ(model.mode(), Model::Mode::kList);
  }
  model.Press(Named(Key::kEnter));
  EXPECT_EQ(model.shown_id(), "");
}

TEST(Model, TypesAFilter) {
  Model model = Two();
  model.Press(Character('/'));
  for (const char32_t c : {U'm', U'q', U'ß'}) model.Press(Character(c));
  EXPECT_EQ(model.typed(), "mqß");
  EXPECT_EQ(model.list().size(), 0u);
  model.Press(Named(Key::kBackspace));
  model.Press(Named(Key::kBackspace));
  EXPECT_EQ(model.typed(), "m");
  EXPECT_EQ(model.list().size(), 1u);
  model.Press(Named(Key::kEnter));
  EXPECT_EQ(model.mode(), Model::Mode::kList);
  EXPECT_EQ(model.list().filter(), "m");
  model.Press(Named(Key::kEscape));
  EXPECT_EQ(model.list().size(), 2u);
  model.Press(Character('/'));
  model.Press(Named(Key::kBackspace));
  for (int i = 0; i < 1000; ++i) model.Press(Character('x'));
  EXPECT_LE(model.typed().size(), 100u);
  model.Press(Named(Key::kEscape));
  EXPECT_EQ(model.list().filter(), "");
}

TEST(Model, SortsReversesAndHides) {
  Model model = Two();
  model.Press(Character('s'));
  EXPECT_EQ(model.list().order(), SortKey::kAge);
  model.Press(Character('S'));
  EXPECT_EQ(model.list().order(), SortKey::kQueue);
  model.Press(Character('r'));
  EXPECT_TRUE(model.list().reversed());
  model.Press(Character('e'));
  EXPECT_TRUE(model.list().hides_ended());
}

TEST(Model, ReadsALog) {
  Model model = Two();
  EXPECT_EQ(model.log_id(), "");
  model.Press(Character('l'));
  EXPECT_EQ(model.mode(), Model::Mode::kLog);
  EXPECT_EQ(model.log_id(), kA);
  model.Apply(LogData{kB, "of another\n"});
  model.Apply(LogData{kA, "1\n2\n3\n4\n5\n"});
  EXPECT_EQ(model.log()->log.lines().size(), 5u);
  model.set_page(2);
  model.Press(Named(Key::kPageUp));
  EXPECT_EQ(model.log()->below, 2u);
  model.Apply(LogData{kA, "6\n"});  // what is looked at stays where it is
  EXPECT_EQ(model.log()->below, 3u);
  model.Press(Named(Key::kHome));
  EXPECT_EQ(model.log()->below, 5u);
  model.Press(Named(Key::kEnd));
  EXPECT_EQ(model.log()->below, 0u);
  model.Apply(LogEnded{kA, "deleted"});
  EXPECT_EQ(model.log()->error, "deleted");
  model.Press(Character('q'));
  EXPECT_EQ(model.mode(), Model::Mode::kList);
  EXPECT_EQ(model.log_id(), "");
  model.Apply(LogData{kA, "late\n"});
}

TEST(Model, TakesPagesByTheScreen) {
  Model model("unix:/x", kNow);
  std::vector<JobRow> rows(100);
  for (int i = 0; i < 100; ++i) {
    rows[i].id = std::to_string(1000 + i);
    rows[i].state = v1::JOB_STATE_QUEUED;
  }
  model.Apply(Listed{rows, false});
  model.set_page(20);
  model.Press(Named(Key::kPageDown));
  EXPECT_EQ(model.list().selected_index(), 20u);
  model.Press(Named(Key::kEnd));
  EXPECT_EQ(model.list().selected_index(), 99u);
  model.Press(Character('k'));
  EXPECT_EQ(model.list().selected_index(), 98u);
  model.Press(Named(Key::kHome));
  model.Press(Character('j'));
  EXPECT_EQ(model.list().selected_index(), 1u);
}

TEST(Model, HelpsAndQuits) {
  Model model = Two();
  model.Press(Character('?'));
  EXPECT_EQ(model.mode(), Model::Mode::kHelp);
  EXPECT_EQ(model.Press(Character('q')).kind, Model::Wish::kNone);
  EXPECT_EQ(model.mode(), Model::Mode::kList);
  EXPECT_EQ(model.Press(Character('q')).kind, Model::Wish::kQuit);
}

TEST(Model, ControlsWorkInEveryMode) {
  for (const char32_t mode : {U'x', U'/', U'c', U'l', U'?'}) {
    Model model = Two();
    model.Press(Character(mode));
    EXPECT_EQ(model.Press(Named(Key::kInterrupt)).kind,
              Model::Wish::kInterrupt);
    EXPECT_EQ(model.Press(Named(Key::kSuspend)).kind, Model::Wish::kSuspend);
    EXPECT_EQ(model.Press(Named(Key::kRedraw)).kind, Model::Wish::kRedraw);
  }
}

}  // namespace
}  // namespace mpsd::client::top
