// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_SWEEPS_SWEEP_FIXTURE_H_
#define MPSD_TESTS_SERVER_SWEEPS_SWEEP_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/sweeps/controller.h"
#include "server/sweeps/sweep_book.h"
#include "tests/fakes/fake_sweep_store.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::sweeps {

// A book and a controller over a Scheduler among fakes. The test speaks for the
// worker: a child's loss is its weight decay, so that the first child is best.
class SweepFixture : public jobs::SchedulerFixture {
 protected:
  SweepFixture() {
    files_.paths.insert("/data/eval.jsonl");
    Reopen();
  }

  // As a daemon that comes back does.
  void Reopen() {
    book_ = std::make_unique<SweepBook>(
        SweepBook::Dependencies{sweeps_, store_, *scheduler_, *scheduler_,
                                clock_},
        [this] { ++calls_; }, [] { return uint64_t{11}; });
    controller_ = std::make_unique<Controller>(
        sweeps_, store_, *scheduler_, clock_,
        [this](const std::string& line) { log_.push_back(line); });
  }
  void KillDaemon() {
    KillAndRestart();
    Reopen();
  }

  // `count` children of 40 steps.
  static SweepBook::Request Asked(int count, int64_t eta = 0) {
    SweepBook::Request request;
    request.submission.owner = "ann";
    request.submission.spec_json =
        R"({"name": "tiny", "model": "org/tiny",
            "dataset": {"train": "/data/train.jsonl",
                        "eval": "/data/eval.jsonl"},
            "training": {"max_steps": 40}})";
    Choices decays;
    for (int i = 0; i < count; ++i) {
      decays.values.push_back(absl::StrCat(0.1 * i));
    }
    request.plan.parameters = {{"training.weight_decay", decays}};
    request.plan.eta = eta;
    return request;
  }
  Sweep Create(const SweepBook::Request& request) {
    auto made = book_->Create(request);
    EXPECT_TRUE(made.ok()) << made.status();
    clock_.Advance(absl::Milliseconds(1));
    return made.ok() ? std::move(made->sweep) : Sweep();
  }
  Sweep Stored(const std::string& id) { return sweeps_.sweeps.at(id); }
  jobs::Job JobOf(const Sweep& sweep, size_t child) {
    return SchedulerFixture::Stored(sweep.children.at(child).job_id);
  }
  std::string Reason(const Sweep& sweep, size_t child) {
    return board_->HoldOf(sweep.children.at(child).job_id);
  }
  // The states of the children, a letter each: Q, R, S, F, C, '-' for deleted.
  std::string States(const Sweep& sweep) {
    std::string states;
    for (const Child& child : sweep.children) {
      const auto job = store_.Get(child.job_id);
      states +=
          job.ok() ? std::string(jobs::Name(job->state)).substr(0, 1) : "-";
    }
    return states;
  }

  // What the running worker says at `step`: its loss, and a checkpoint.
  void Report(int64_t step, double loss) {
    Worker().OnProgress(Step(step, 40));
    Worker().OnEvaluated({step, loss, 1, 0.1, {}, false});
    Worker().OnCheckpoint(At(step, absl::StrCat("/out/step-", step)));
  }
  // The running worker goes to where it was told to stop, or to its end.
  void RunOne(std::optional<double> loss = std::nullopt) {
    const jobs::Job job = SchedulerFixture::Stored(Running());
    double decay = 0;
    EXPECT_TRUE(
        absl::SimpleAtod(job.labels.at("training.weight_decay"), &decay));
    const int64_t until = launcher_.requests.back().until_step;
    EXPECT_EQ(until, job.until_step);
    Report(until == 0 ? 40 : until, loss.value_or(decay));
    if (until > 0) {
      launcher_.Exit(jobs::ExitReason::kPreempted, "reached its step");
    } else {
      jobs::WorkerListener::Result done;
      done.reason = jobs::ExitReason::kDone;
      done.outcome.output_path = "/out/adapter";
      launcher_.Exit(done);
    }
    scheduler_->Tick();
  }
  // Runs every job that starts, and the controller behind each.
  void RunAll() {
    scheduler_->Tick();
    while (!Running().empty()) {
      RunOne();
      controller_->Tick();
      scheduler_->Tick();
    }
  }

  fakes::FakeSweepStore sweeps_{store_};
  int calls_ = 0;  // of the book, for the controller
  std::unique_ptr<SweepBook> book_;
  std::unique_ptr<Controller> controller_;
};

}  // namespace mpsd::sweeps

#endif  // MPSD_TESTS_SERVER_SWEEPS_SWEEP_FIXTURE_H_
