// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/jobs/user_limits.h"

namespace mpsd::rpc {

// Knows who sent what, without limits. Thread-safe.
class FakeLedger : public jobs::UserLedger {
 public:
  void Send(const std::string& user, const std::string& sha256) {
    absl::MutexLock lock(&mutex_);
    sent_.emplace(user, sha256);
  }

  std::unique_ptr<jobs::UploadClaim> Begin(const std::string& user,
                                           const jobs::UserLimits&) override {
    return std::make_unique<Claim>(*this, user);
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
  absl::StatusOr<jobs::UserBytes> BytesOf(const std::string&) override {
    return jobs::UserBytes();
  }

 private:
  class Claim : public jobs::UploadClaim {
   public:
    Claim(FakeLedger& ledger, std::string user)
        : ledger_(ledger), user_(std::move(user)) {}
    absl::Status Add(const std::string& sha256, int64_t) override {
      added_.push_back(sha256);
      return absl::OkStatus();
    }
    absl::Status Commit() override {
      for (const std::string& sha256 : added_) ledger_.Send(user_, sha256);
      return absl::OkStatus();
    }

   private:
    FakeLedger& ledger_;
    const std::string user_;
    std::vector<std::string> added_;
  };

  absl::Mutex mutex_;
  std::set<std::pair<std::string, std::string>> sent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_LEDGER_H_
