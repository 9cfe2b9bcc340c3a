// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_SWEEP_STORE_H_
#define MPSD_TESTS_FAKES_FAKE_SWEEP_STORE_H_

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/sweeps/sweep_store.h"
#include "tests/fakes/fake_job_store.h"

namespace mpsd::fakes {

// sweeps::SweepStore in memory, over the jobs of a FakeJobStore. One thread at
// a time.
class FakeSweepStore final : public sweeps::SweepStore {
 public:
  // `jobs` must outlive the store.
  explicit FakeSweepStore(FakeJobStore& jobs) : jobs_(jobs) {}

  absl::Status Insert(const sweeps::Sweep& sweep,
                      absl::Span<const jobs::Job> jobs,
                      absl::Span<const jobs::Event> events) override {
    if (!failure.ok()) return failure;
    if (before_insert) before_insert();
    for (const auto& [id, other] : sweeps) {
      if (!sweep.idempotency_key.empty() && other.owner == sweep.owner &&
          other.idempotency_key == sweep.idempotency_key) {
        return absl::AlreadyExistsError("the key is taken");
      }
    }
    for (size_t i = 0; i < jobs.size(); ++i) {
      absl::Status inserted = jobs_.Insert(jobs[i], events[i]);
      if (!inserted.ok()) return inserted;
    }
    sweeps[sweep.id] = sweep;
    return absl::OkStatus();
  }
  absl::StatusOr<sweeps::Sweep> Get(const std::string& id) override {
    const auto found = sweeps.find(id);
    if (found == sweeps.end()) return absl::NotFoundError("no sweep " + id);
    return found->second;
  }
  absl::StatusOr<std::optional<sweeps::Sweep>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key) override {
    for (const auto& [id, sweep] : sweeps) {
      if (sweep.owner == owner && sweep.idempotency_key == key) return {sweep};
    }
    return std::optional<sweeps::Sweep>();
  }
  absl::StatusOr<std::vector<sweeps::Sweep>> List(
      const sweeps::SweepFilter& filter) override {
    std::vector<sweeps::Sweep> found;
    for (auto it = sweeps.rbegin(); it != sweeps.rend(); ++it) {
      const bool named =
          filter.ids.empty() ||
          std::count(filter.ids.begin(), filter.ids.end(), it->first) > 0;
      const bool owned = !filter.owner || *filter.owner == it->second.owner;
      const bool behind = filter.before.empty() || it->first < filter.before;
      if (named && owned && behind &&
          found.size() < static_cast<size_t>(filter.limit)) {
        found.push_back(it->second);
      }
    }
    return found;
  }
  absl::StatusOr<std::vector<std::string>> Thinning() override {
    if (!failure.ok()) return failure;
    std::vector<std::string> ids;
    for (const auto& [id, sweep] : sweeps) {
      jobs::ListFilter open;
      open.sweep_id = id;
      open.states = {jobs::State::kQueued, jobs::State::kRunning};
      if (!sweep.plan.rungs.empty() && !jobs_.List(open)->empty()) {
        ids.push_back(id);
      }
    }
    return ids;
  }
  absl::Status Decide(const sweeps::Sweep& sweep) override {
    if (!failure.ok()) return failure;
    sweeps::Sweep& stored = sweeps[sweep.id];
    if (stored.rung != sweep.rung - 1) {
      return absl::FailedPreconditionError("another rung is decided");
    }
    stored = sweep;
    ++decisions;
    return absl::OkStatus();
  }

  std::map<std::string, sweeps::Sweep> sweeps;
  absl::Status failure;  // of each change, and of Thinning
  std::function<void()> before_insert;
  int decisions = 0;

 private:
  FakeJobStore& jobs_;
};

}  // namespace mpsd::fakes

#endif  // MPSD_TESTS_FAKES_FAKE_SWEEP_STORE_H_
