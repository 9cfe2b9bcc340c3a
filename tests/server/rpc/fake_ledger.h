// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/jobs/user_limits.h"

namespace mpsd::rpc {

// Knows who sent what; the limit of uploads counts for each upload.
// Thread-safe.
class FakeLedger : public jobs::UserLedger {
 public:
  void Send(const std::string& user, const std::string& sha256,
            int64_t bytes = 0) {
    absl::MutexLock lock(&mutex_);
    sent_[{user, sha256}] = bytes;
  }

  std::unique_ptr<jobs::UploadClaim> Begin(
      const std::string& user, const jobs::UserLimits& limits) override {
    return std::make_unique<Claim>(*this, user, limits);
  }
  absl::Status Use(const std::string& user, const jobs::UserLimits&,
                   const std::set<std::string>& blobs) override {
    for (const std::string& sha256 : blobs) Send(user, sha256);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Holds(const std::string& user,
                             const std::string& sha256) override {
    absl::MutexLock lock(&mutex_);
    return sent_.contains({user, sha256});
  }
  absl::StatusOr<jobs::UserBytes> BytesOf(const std::string& user) override {
    absl::MutexLock lock(&mutex_);
    jobs::UserBytes bytes{0, 7};
    for (const auto& [key, sent] : sent_) {
      if (key.first == user) bytes.uploads += sent;
    }
    return bytes;
  }

 private:
  class Claim : public jobs::UploadClaim {
   public:
    Claim(FakeLedger& ledger, std::string user, const jobs::UserLimits& limits)
        : ledger_(ledger), user_(std::move(user)), limits_(limits) {}
    absl::Status Add(const std::string& sha256, int64_t bytes) override {
      added_[sha256] = bytes;
      return CheckUploads(user_, limits_, 0, bytes);
    }
    absl::Status Commit() override {
      for (const auto& [sha256, bytes] : added_) {
        ledger_.Send(user_, sha256, bytes);
      }
      return absl::OkStatus();
    }

   private:
    FakeLedger& ledger_;
    const std::string user_;
    const jobs::UserLimits limits_;
    std::map<std::string, int64_t> added_;
  };

  absl::Mutex mutex_;
  std::map<std::pair<std::string, std::string>, int64_t> sent_
      ABSL_GUARDED_BY(mutex_);  // by user and hash
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_
