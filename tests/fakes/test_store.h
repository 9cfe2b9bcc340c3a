// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/store/database.h"
#include "server/store/ended_jobs.h"
#include "server/store/job_store.h"

namespace mpsd::fakes {

// The stores of jobs over a database: in a new file, or the one that a program
// has in memory and that each TestStore empties.
class TestStore {
 public:
  TestStore() : database_(InMemory()) {}
  explicit TestStore(const std::filesystem::path& path)
      : file_(Open(path)), database_(*file_) {}
  ~TestStore() {
    FreeDisk();
    on_commit() = nullptr;
  }
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;

  store::Database& database() { return database_; }
  // Called after each commit, before the store's call returns.
  static std::function<void()>& on_commit() {
    static std::function<void()> call;
    return call;
  }

  // Past the stores.
  void Execute(const std::string& sql) {
    store::Connection& c = database_.writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec(sql);
  }
  int64_t Number(const std::string& query) {
    store::Connection& c = database_.writer();
    absl::MutexLock lock(&c.mutex());
    return c.database().execAndGet(query).getInt64();
  }

  // From here on the database cannot grow, and each change of a job needs more
  // room than it has.
  void FillDisk() {
    Execute("CREATE TABLE IF NOT EXISTS ballast (bytes BLOB)");
    Execute("VACUUM");  // what was freed would be used
    Number("PRAGMA max_page_count = 1");
    for (const std::string& trigger : Triggers()) {
      Execute(absl::StrCat(
          "CREATE TEMP TRIGGER IF NOT EXISTS ", trigger,
          " BEGIN INSERT INTO ballast VALUES (zeroblob(16777216)); END"));
    }
  }
  void FreeDisk() {
    for (const std::string& trigger : Triggers()) {
      Execute("DROP TRIGGER IF EXISTS " + trigger.substr(0, trigger.find(' ')));
    }
    Number("PRAGMA max_page_count = 4294967294");
  }

  // Job "id-NUMBER" of `owner`, which SUCCEEDED, with a folder of so many
  // bytes.
  void PutEnded(int64_t number, const std::string& owner, absl::Time end,
                int64_t bytes, int64_t checkpoint_bytes = 0) {
    Execute(absl::StrCat(
        "INSERT INTO jobs (number, id, name, owner, state, end_time_us, "
        "stored_bytes, stored_checkpoint_bytes, cancel_requested, priority, "
        "create_time_us, attempt, failures, message, output_path, spec_json, "
        "request_hash) VALUES (",
        number, ", 'id-", number, "', 'name ", number, "', '", owner, "', 3, ",
        absl::ToUnixMicros(end), ", ", bytes, ", ", checkpoint_bytes,
        ", 0, 0, 0, 0, 0, '', '', '{}', '')"));
  }
  // A job of `model`, which its spec has in `folder`.
  void PutJobOf(const std::string& model, const std::string& folder,
                jobs::State state = jobs::State::kQueued) {
    static int number = 0;
    jobs::Job job;
    job.id = absl::StrCat("job ", ++number);
    job.model = model;
    job.state = state;
    job.spec_json = R"({"model": ")" + folder + "\"}";
    const absl::Status stored =
        rows.Insert(job, {job.id, 1, {}, jobs::StateChanged{}});
    if (!stored.ok()) std::abort();
  }
  // The job's row cannot be read as a whole until it is marked.
  void Spoil(const std::string& id) {
    Execute("UPDATE jobs SET exit_reason = 'of no release' WHERE id = '" + id +
            "'");
  }

 private:
  static std::unique_ptr<store::Database> Open(
      const std::filesystem::path& path) {
    auto database = store::Database::Open(path, [](absl::Duration) {
      if (on_commit()) on_commit()();
    });
    if (!database.ok()) {
      std::cerr << database.status() << "\n";
      std::abort();
    }
    return *std::move(database);
  }
  // One for all tests of a program, since its migrations take 40 ms.
  static store::Database& InMemory() {
    static store::Database& database = *Open(":memory:").release();
    store::Connection& c = database.writer();
    absl::MutexLock lock(&c.mutex());
    std::vector<std::string> tables;
    {
      store::Query query(
          c,
          "SELECT name FROM main.sqlite_master WHERE type = 'table' "
          "AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'job_texts%'");
      while (query.Next()) tables.push_back(query.Text());
    }
    tables.push_back("sqlite_sequence");
    for (const std::string& table : tables) {
      c.database().exec("DELETE FROM " + table);
    }
    // The index of texts, and what it has to look at again.
    c.database().exec(
        "INSERT INTO job_texts (job_texts) VALUES ('delete-all');"
        "DELETE FROM job_texts_changed");
    return database;
  }
  // "full_jobs_INSERT BEFORE INSERT ON jobs" and so on.
  static std::vector<std::string> Triggers() {
    std::vector<std::string> triggers;
    for (const char* table :
         {"jobs", "events", "checkpoints", "owner_use", "drain", "ended_jobs",
          "blobs", "tokens", "audit"}) {
      for (const char* change : {"INSERT", "UPDATE", "DELETE"}) {
        triggers.push_back(absl::StrCat("full_", table, "_", change, " BEFORE ",
                                        change, " ON ", table));
      }
    }
    return triggers;
  }

  const std::unique_ptr<store::Database> file_;
  store::Database& database_;

 public:
  jobs::JobStore rows{database_};
  jobs::KeptJobs kept{database_};
};

}  // namespace mpsd::fakes
