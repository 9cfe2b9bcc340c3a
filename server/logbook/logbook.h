// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOGBOOK_LOGBOOK_H_
#define MPSD_SERVER_LOGBOOK_LOGBOOK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/mounts.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_id.h"
#include "server/jobs/job_records.h"
#include "server/jobs/job_store.h"
#include "server/jobs/record_notes.h"
#include "server/logbook/record_store.h"
#include "server/logbook/run_watch.h"

namespace mpsd::logbook {

// Writes the record of each job that has ended, at least once: the store keeps
// the end until the record is written, also across restarts. Thread-safe.
class Logbook final : public jobs::JobRecords, public jobs::RecordNotes {
 public:
  // A record takes about 5 kB of the database with the indexes, so these take
  // 1 GB; tests/bench/logbook.py measures it.
  static constexpr int64_t kMostRecords = 200'000;

  struct Options {
    std::string version, commit;  // mpsd's
    int64_t most_records = kMostRecords;
    absl::Duration interval = absl::Seconds(1);  // between two looks
    jobs::JobIdGenerator::Random random = jobs::JobIdGenerator::SystemRandom();
    // The machine's file systems; asked for runs that have just ended.
    std::function<std::vector<host::Mount>()> mounts = host::ListMounts;
    // Gets a line for each fault.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  struct Dependencies {
    RecordStore& store;
    jobs::JobStore& jobs;
    jobs::JobFiles& files;
    RunWatch& watch;
    const base::Clock& clock;
  };

  // The dependencies must outlive the logbook.
  Logbook(Options options, const Dependencies& dependencies)
      : options_(std::move(options)),
        dependencies_(dependencies),
        ids_(dependencies.clock, options_.random) {}

  // Stores what was seen of attempts and writes the records that lack. Returns
  // the time until which no call is needed. One thread at a time.
  absl::Time Tend();

  RecordStore& store() { return dependencies_.store; }

  absl::Status WriteRecord(const std::string& job_id) override;
  absl::Status Add(const std::string& job_id, const std::string& author,
                   const std::string& text) override;

  // Adds a note to a record. Errors as RecordStore::AddNote.
  absl::Status AddNote(const std::string& id, const std::string& author,
                       const std::string& text, bool rejected);
  // Makes an entry with one note; returns its id.
  absl::StatusOr<std::string> AddEntry(const std::string& author,
                                       const std::string& text, bool rejected);

 private:
  // Stores what was seen of attempts; `now`: also of one that goes on.
  absl::Status StoreAttempts(bool now);
  absl::Status Write(const UnwrittenRecord& unwritten);
  // Whether there may be more ends than were looked at.
  bool WriteSome();
  void Prune();
  // Logs a fault, but not the same one again and again.
  void LogFault(const absl::Status& fault);

  const Options options_;
  const Dependencies dependencies_;
  // Whoever holds it writes records: the row, the files and the sums of a job
  // are read and stored by one thread at a time.
  absl::Mutex writing_;
  jobs::JobIdGenerator ids_;
  // Tend's own.
  int64_t last_ = 0;  // number of the last end that was looked at
  std::string logged_;
};

}  // namespace mpsd::logbook

#endif  // MPSD_SERVER_LOGBOOK_LOGBOOK_H_
