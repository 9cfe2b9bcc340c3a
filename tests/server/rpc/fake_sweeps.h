// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_SWEEPS_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_SWEEPS_H_

#include <string>
#include <vector>

#include "server/jobs/job_id.h"
#include "server/sweeps/sweep_book.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_job_store.h"
#include "tests/fakes/fake_sweep_store.h"

namespace mpsd::rpc {

// A SweepBook whose children are rows in memory that nobody runs. One thread at
// a time, but for calls that find nothing.
class FakeSweeps final : private jobs::SweepChildren {
 public:
  // `manager` cancels; must outlive this object.
  explicit FakeSweeps(jobs::JobManager& manager) : manager_(manager) {}

  sweeps::SweepBook& book() { return book_; }

  fakes::FakeClock clock;
  fakes::FakeJobStore jobs;
  fakes::FakeSweepStore store{jobs};
  std::vector<jobs::ChildRequest> submitted;  // the last sweep's
  absl::Status refusal;                       // of the next sweep

 private:
  absl::StatusOr<std::vector<jobs::Job>> SubmitChildren(
      absl::Span<const jobs::ChildRequest> children,
      const std::string& sweep_id, int64_t until_step,
      const Insert& insert) override {
    if (!refusal.ok()) return refusal;
    submitted.assign(children.begin(), children.end());
    std::vector<jobs::Job> made;
    std::vector<jobs::Event> events;
    for (const jobs::ChildRequest& child : children) {
      jobs::Job& job = made.emplace_back();
      job.id = ids_.Next();
      job.sweep_id = sweep_id;
      job.until_step = until_step;
      job.owner = child.request.owner;
      job.labels = child.request.labels;
      job.create_time = clock.Now();
      events.push_back(
          {job.id, 1, clock.Now(), jobs::StateChanged{job.state, ""}});
    }
    absl::Status inserted = insert(made, events);
    if (!inserted.ok()) return inserted;
    return made;
  }
  absl::StatusOr<jobs::Job> SendOn(const std::string& id, int64_t) override {
    return jobs.Get(id);
  }
  absl::StatusOr<jobs::Job> Drop(const std::string& id,
                                 const std::string&) override {
    return jobs.Get(id);
  }

  jobs::JobManager& manager_;
  jobs::JobIdGenerator ids_{clock, [] { return uint64_t{5}; }};
  sweeps::SweepBook book_{{store, jobs, manager_, *this, clock}, [] {}};
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_SWEEPS_H_
