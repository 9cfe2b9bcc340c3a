// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_MODELS_FAKE_USES_H_
#define MPSD_TESTS_SERVER_MODELS_FAKE_USES_H_

#include <map>
#include <set>
#include <string>

#include "absl/synchronization/mutex.h"
#include "server/models/model_book.h"

namespace mpsd::models {

// Uses that a test writes, before others read them.
class FakeUses final : public ModelUses {
 public:
  absl::StatusOr<std::map<std::string, Use>> All() override { return all; }
  absl::StatusOr<std::set<std::string>> UnfinishedFolders() override {
    return unfinished;
  }
  absl::StatusOr<std::set<std::string>> FoldersOf(
      const std::string& model) override {
    return folders[model];
  }

  std::map<std::string, Use> all;
  std::set<std::string> unfinished;
  std::map<std::string, std::set<std::string>> folders;
};

// Pulls in memory. Thread-safe, but for what a test reads of `all` itself.
class FakePulls final : public PullLedger {
 public:
  absl::Status Add(const std::string& model, const std::string& user,
                   int64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    all[model][user] += bytes;
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& model) override {
    absl::MutexLock lock(&mutex_);
    all.erase(model);
    return absl::OkStatus();
  }
  absl::StatusOr<std::map<std::string, Bytes>> All() override {
    absl::MutexLock lock(&mutex_);
    return all;
  }

  std::map<std::string, Bytes> all;

 private:
  absl::Mutex mutex_;
};

}  // namespace mpsd::models

#endif  // MPSD_TESTS_SERVER_MODELS_FAKE_USES_H_
