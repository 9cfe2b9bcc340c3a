// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_LOGBOOK_FAKE_RECORD_STORE_H_
#define MPSD_TESTS_SERVER_LOGBOOK_FAKE_RECORD_STORE_H_

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/limits.h"
#include "server/logbook/record_store.h"

namespace mpsd::logbook {

// RecordStore in memory; of a search it knows the owner and the page alone.
// Thread-safe.
class FakeRecordStore final : public RecordStore {
 public:
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    failure_ = std::move(status);
  }
  void End(const std::string& job_id) {
    absl::MutexLock lock(&mutex_);
    unwritten_.push_back({++last_end_, job_id});
  }
  std::vector<UnwrittenRecord> unwritten() {
    absl::MutexLock lock(&mutex_);
    return unwritten_;
  }
  RecordSearch last_search() {
    absl::MutexLock lock(&mutex_);
    return search_;
  }

  absl::StatusOr<std::vector<UnwrittenRecord>> Unwritten(int64_t number,
                                                         int limit) override {
    absl::MutexLock lock(&mutex_);
    std::vector<UnwrittenRecord> ends;
    for (const UnwrittenRecord& end : unwritten_) {
      if (end.number > number && static_cast<int>(ends.size()) < limit) {
        ends.push_back(end);
      }
    }
    return ends;
  }
  absl::StatusOr<std::optional<UnwrittenRecord>> UnwrittenOf(
      const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    for (const UnwrittenRecord& end : unwritten_) {
      if (end.job_id == job_id) return end;
    }
    return std::optional<UnwrittenRecord>();
  }
  absl::Status Put(const NewRecord& record, int64_t unwritten) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    StoredRecord& stored = records_[record.id];
    stored.number = ++last_;
    stored.id = record.id;
    stored.owner = record.owner;
    stored.body = record.body;
    if (record.note) stored.notes.push_back(*record.note);
    Drop(unwritten);
    return absl::OkStatus();
  }
  absl::Status Forget(int64_t unwritten) override {
    absl::MutexLock lock(&mutex_);
    Drop(unwritten);
    return absl::OkStatus();
  }
  absl::Status PutAttempts(const std::vector<AttemptRow>& rows) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    for (const AttemptRow& row : rows) {
      attempts_[row.job_id][row.start] = row.body;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> Attempts(
      const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> bodies;
    for (const auto& [start, body] : attempts_[job_id]) bodies.push_back(body);
    return bodies;
  }
  absl::StatusOr<std::vector<StoredRecord>> Search(
      const RecordSearch& search) override {
    absl::MutexLock lock(&mutex_);
    search_ = search;
    std::vector<StoredRecord> found;
    for (const auto& [id, record] : records_) {
      if (record.number < search.before &&
          (!search.owner || record.owner == *search.owner)) {
        found.push_back(record);
      }
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.number > b.number; });
    if (static_cast<int>(found.size()) > search.limit) {
      found.resize(search.limit);
    }
    return found;
  }
  absl::StatusOr<StoredRecord> Get(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    const auto found = records_.find(id);
    if (found == records_.end()) return absl::NotFoundError(id);
    return found->second;
  }
  absl::StatusOr<std::vector<std::string>> FindByIdPart(
      const std::string& part, const std::optional<std::string>& owner,
      int limit) override {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> ids;
    for (const auto& [id, record] : records_) {
      if ((id.starts_with(part) || id.ends_with(part)) &&
          (!owner || record.owner == *owner) &&
          static_cast<int>(ids.size()) < limit) {
        ids.push_back(id);
      }
    }
    return ids;
  }
  absl::Status AddNote(const std::string& id, const Note& note) override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    const auto found = records_.find(id);
    if (found == records_.end()) return absl::NotFoundError(id);
    if (found->second.notes.size() >= limits::kRecordNotes) {
      return absl::ResourceExhaustedError("too many notes");
    }
    found->second.notes.push_back(note);
    return absl::OkStatus();
  }
  absl::Status Tag(const std::string& id, const std::vector<std::string>& add,
                   const std::vector<std::string>& remove) override {
    absl::MutexLock lock(&mutex_);
    const auto found = records_.find(id);
    if (found == records_.end()) return absl::NotFoundError(id);
    std::set<std::string> tags(found->second.tags.begin(),
                               found->second.tags.end());
    for (const std::string& tag : remove) tags.erase(tag);
    tags.insert(add.begin(), add.end());
    found->second.tags.assign(tags.begin(), tags.end());
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Prune(int64_t most) override {
    absl::MutexLock lock(&mutex_);
    int64_t removed = 0;
    while (static_cast<int64_t>(records_.size()) > most) {
      records_.erase(records_.begin());
      ++removed;
    }
    return removed;
  }

 private:
  void Drop(int64_t unwritten) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(unwritten_, [&](const UnwrittenRecord& end) {
      return end.number == unwritten;
    });
  }

  absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_end_ ABSL_GUARDED_BY(mutex_) = 0;
  RecordSearch search_ ABSL_GUARDED_BY(mutex_);
  std::vector<UnwrittenRecord> unwritten_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, StoredRecord> records_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::map<absl::Time, std::string>> attempts_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::logbook

#endif  // MPSD_TESTS_SERVER_LOGBOOK_FAKE_RECORD_STORE_H_
