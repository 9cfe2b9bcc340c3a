// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_TOKENS_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_TOKENS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/token_book.h"

namespace mpsd::rpc {

// Tokens in memory.
class FakeTokens final : public access::TokenLookup {
 public:
  void Put(const std::string& secret, const std::string& user,
           access::Role role = access::Role::kUser) {
    absl::MutexLock lock(&mutex_);
    callers_[secret] = {user, role, access::Way::kToken, "token 0a1b2c3d4e5f",
                        ""};
  }
  void Revoke(const std::string& secret) {
    absl::MutexLock lock(&mutex_);
    callers_.erase(secret);
  }
  std::optional<access::Caller> Find(std::string_view secret) override {
    absl::MutexLock lock(&mutex_);
    const auto found = callers_.find(std::string(secret));
    if (found == callers_.end()) return std::nullopt;
    return found->second;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, access::Caller> callers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_TOKENS_H_
