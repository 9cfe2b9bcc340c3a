// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_JOBS_SCHEDULER_SHARE_FIXTURE_H_
#define MPSD_TESTS_SERVER_JOBS_SCHEDULER_SHARE_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/fakes/fake_host.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {

// A scheduler that divides the device among several owners.
class SchedulerShareFixture : public SchedulerFixture {
 protected:
  SchedulerShareFixture() {
    half_life_ = absl::Hours(24);
    use_interval_ = absl::Minutes(1);
    preemption_.enabled = true;
    Restart();
  }

  // The scheduler's attempt keeps the machine awake until its end.
  ~SchedulerShareFixture() override { scheduler_.reset(); }

  std::string SubmitFor(const std::string& owner, int32_t priority = 0) {
    SubmitRequest request = Request();
    request.owner = owner;
    request.priority = priority;
    auto result = scheduler_->Submit(request);
    EXPECT_TRUE(result.ok()) << result.status();
    clock_.Advance(absl::Milliseconds(1));
    return result.ok() ? result->job.id : "";
  }
  void After(absl::Duration time) {
    clock_.Advance(time);
    scheduler_->Tick();
  }
  // Ends the running job, after `time`.
  void RunFor(absl::Duration time) {
    clock_.Advance(time);
    launcher_.Exit(ExitReason::kDone);
    scheduler_->Tick();
  }
  double Used(const std::string& owner) {
    const QueueListing listing = board_->Queue(100);
    for (const OwnerUse& use : listing.usage) {
      if (use.owner == owner) return use.seconds;
    }
    return 0;
  }
  std::vector<std::string> Order() {
    std::vector<std::string> ids;
    for (const QueuePlace& place : board_->Queue(100).places) {
      ids.push_back(place.id);
    }
    return ids;
  }
  std::vector<std::string> Notes(const std::string& id) {
    std::vector<std::string> notes;
    const std::vector<Event> events = *board_->Events(id, 0);
    for (const Event& event : events) {
      const auto* note = std::get_if<Note>(&event.body);
      if (note != nullptr) notes.push_back(note->text);
    }
    return notes;
  }
  // A running job of ann's that others may take the device from.
  std::string LongAtWork() {
    const std::string id = SubmitFor("ann");
    scheduler_->Tick();
    EXPECT_EQ(Running(), id);
    Worker().OnProgress(Step(1, 100'000));
    After(absl::Minutes(6));
    return id;
  }

  fakes::FakeHost machine_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_TESTS_SERVER_JOBS_SCHEDULER_SHARE_FIXTURE_H_
