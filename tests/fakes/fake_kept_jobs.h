// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_KEPT_JOBS_H_
#define MPSD_TESTS_FAKES_FAKE_KEPT_JOBS_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/jobs/collector.h"

namespace mpsd::fakes {

// jobs::KeptJobs out of plain data. One thread at a time, but for MayRemove.
class FakeKeptJobs final : public jobs::KeptJobs {
 public:
  absl::StatusOr<std::vector<jobs::KeptOwner>> Ended() override {
    ++reads;
    if (!failure.ok()) return failure;
    return owners;
  }
  absl::StatusOr<std::vector<jobs::NamedJob>> Names(
      absl::Span<const int64_t> numbers) override {
    std::vector<jobs::NamedJob> named;
    for (const int64_t number : numbers) {
      if (gone.contains(number)) continue;
      named.push_back({number, "id-" + std::to_string(number),
                       "name " + std::to_string(number)});
    }
    return named;
  }
  absl::Status MayRemove(const std::string& id, absl::Time ended) override {
    asked[id] = ended;
    return refusals.contains(id) ? refusals[id] : absl::OkStatus();
  }
  absl::Status MayDelete(const std::string& id) override {
    return refusals.contains(id) ? refusals[id] : absl::OkStatus();
  }
  absl::Status SetPinned(const std::string& id, bool is_pinned) override {
    if (is_pinned) {
      pinned.insert(id);
    } else {
      pinned.erase(id);
    }
    return failure;
  }
  absl::Status SetBytes(absl::Span<const jobs::FolderBytes> folders) override {
    if (!failure.ok()) return failure;
    for (const jobs::FolderBytes& folder : folders) bytes[folder.id] = folder;
    return absl::OkStatus();
  }
  absl::Status ForgetCheckpoints(const std::string& id,
                                 absl::Time ended) override {
    absl::Status may = MayRemove(id, ended);
    if (may.ok()) forgotten.insert(id);
    return may;
  }

  std::vector<jobs::KeptOwner> owners;
  std::set<int64_t> gone;
  absl::Status failure;
  int reads = 0;
  std::map<std::string, absl::Time> asked;
  std::map<std::string, absl::Status> refusals;  // by id
  std::set<std::string> pinned, forgotten;
  std::map<std::string, jobs::FolderBytes> bytes;
};

}  // namespace mpsd::fakes

#endif  // MPSD_TESTS_FAKES_FAKE_KEPT_JOBS_H_
