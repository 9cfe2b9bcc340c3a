// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_STORE_SCRATCH_H_
#define MPSD_TESTS_SERVER_STORE_SCRATCH_H_

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "server/jobs/job.h"
#include "server/store/database.h"

namespace mpsd::store {

// A new empty folder, removed with the object.
class Scratch {
 public:
  Scratch() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::path(testing::TempDir()) /
            ("mpsd-store-" + std::to_string(getpid()) + "-" +
             std::to_string(++counter));
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file() const { return path_ / "mpsd.db"; }

 private:
  std::filesystem::path path_;
};

inline std::unique_ptr<Database> OpenOrDie(const std::filesystem::path& path) {
  auto database = Database::Open(path);
  if (!database.ok()) {
    ADD_FAILURE() << database.status();
    std::abort();
  }
  return *std::move(database);
}

// A queued job; its id sorts as `number`.
inline jobs::Job QueuedJob(int number) {
  jobs::Job job;
  const std::string digits = std::to_string(number);
  job.id = "01J" + std::string(23 - digits.size(), '0') + digits;
  job.name = "job " + digits;
  job.create_time = absl::FromUnixMicros(1'700'000'000'000'000 + number);
  job.spec_json = R"({"model": "m"})";
  job.request_hash = "hash " + digits;
  return job;
}

inline jobs::Event StateEvent(const jobs::Job& job, int64_t sequence) {
  return {job.id, sequence, absl::FromUnixMicros(sequence),
          jobs::StateChanged{job.state, job.message}};
}

inline jobs::Event ProgressEvent(const jobs::Job& job, int64_t sequence) {
  jobs::Progress progress;
  progress.step = sequence;
  progress.total_steps = 5000;
  progress.loss = 1.0 / static_cast<double>(sequence);
  progress.device = "cpu";
  return {job.id, sequence, absl::FromUnixMicros(sequence), progress};
}

}  // namespace mpsd::store

#endif  // MPSD_TESTS_SERVER_STORE_SCRATCH_H_
