// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "server/store/database.h"
#include "server/store/job.h"
#include "server/store/job_store.h"
#include "tests/fakes/test_store.h"

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

// The access bits of a file; 0 if it does not exist.
inline mode_t ModeOf(const std::filesystem::path& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

inline std::unique_ptr<Database> OpenOrDie(const std::filesystem::path& path) {
  auto database = Database::Open(path);
  if (!database.ok()) {
    ADD_FAILURE() << database.status();
    std::abort();
  }
  return *std::move(database);
}

}  // namespace mpsd::store

namespace mpsd::jobs {

using store::Connection;
using store::Database;
using store::OpenOrDie;
using store::Query;
using store::Scratch;
using store::Transaction;

// A queued job; its id sorts as `number`.
inline Job QueuedJob(int number) {
  Job job;
  const std::string digits = std::to_string(number);
  job.id = "01J" + std::string(23 - digits.size(), '0') + digits;
  job.name = "job " + digits;
  job.create_time = absl::FromUnixMicros(1'700'000'000'000'000 + number);
  job.spec_json = R"({"model": "m"})";
  job.request_hash = "hash " + digits;
  return job;
}

inline Event StateEvent(const Job& job, int64_t sequence) {
  return {job.id, sequence, absl::FromUnixMicros(sequence),
          StateChanged{job.state, job.message}};
}

inline Event ProgressEvent(const Job& job, int64_t sequence) {
  Progress progress;
  progress.step = sequence;
  progress.total_steps = 5000;
  progress.loss = 1.0 / static_cast<double>(sequence);
  progress.device = "cpu";
  return {job.id, sequence, absl::FromUnixMicros(sequence), progress};
}

// A database in a file of its own, and its store of jobs.
class StoreFixture : public testing::Test {
 protected:
  StoreFixture() : file_(OpenOrDie(scratch_.file())), database_(file_.get()) {}
  explicit StoreFixture(Database& memory) : database_(&memory) {}

  Job Insert(const Job& job) {
    const absl::Status status = jobs_.Insert(job, StateEvent(job, 1));
    EXPECT_TRUE(status.ok()) << status;
    return job;
  }
  void Update(const Job& job, const std::vector<Event>& events = {}) {
    const absl::Status status = jobs_.Update(job, events);
    EXPECT_TRUE(status.ok()) << status;
  }
  // Past the stores.
  void Execute(const std::string& sql) {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec(sql);
  }
  int64_t Number(const std::string& query) {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    return c.database().execAndGet(query).getInt64();
  }

  Scratch scratch_;
  std::unique_ptr<Database> file_;
  Database* const database_;
  JobStore jobs_{*database_};
};

// The same in memory.
struct InMemory {
  fakes::TestStore memory_;
};
class MemoryFixture : protected InMemory, public StoreFixture {
 protected:
  MemoryFixture() : StoreFixture(memory_.database()) {}
};

}  // namespace mpsd::jobs
