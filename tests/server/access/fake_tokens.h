// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_ACCESS_FAKE_TOKENS_H_
#define MPSD_TESTS_SERVER_ACCESS_FAKE_TOKENS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/token_book.h"

namespace mpsd::access {

// Tokens in memory, which outlive the book that uses them. Thread-safe.
class FakeTokens final : public Tokens {
 public:
  absl::StatusOr<std::vector<Token>> All() override {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    return rows_;
  }
  absl::Status Insert(const Token& token) override {
    absl::MutexLock lock(&mutex_);
    AwaitDisk();
    if (!failure_.ok()) return failure_;
    for (const Token& row : rows_) {
      if (TokenId(row.sha256) == TokenId(token.sha256)) {
        return absl::AlreadyExistsError("the id is taken");
      }
    }
    rows_.push_back(token);
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    AwaitDisk();
    if (!failure_.ok()) return failure_;
    std::erase_if(rows_,
                  [&](const Token& row) { return TokenId(row.sha256) == id; });
    return absl::OkStatus();
  }
  absl::Status SetLastUses(
      absl::Span<const std::pair<std::string, absl::Time>> uses) override {
    absl::MutexLock lock(&mutex_);
    AwaitDisk();
    ++use_writes_;
    if (!failure_.ok()) return failure_;
    for (const auto& [id, time] : uses) {
      for (Token& row : rows_) {
        if (TokenId(row.sha256) == id) row.last_use = time;
      }
    }
    return absl::OkStatus();
  }

  // What every call returns from now on.
  void Fail(absl::Status failure) {
    absl::MutexLock lock(&mutex_);
    failure_ = std::move(failure);
  }
  // Whether changes wait, as for a disk that hangs.
  void Hang(bool hangs) {
    absl::MutexLock lock(&mutex_);
    hangs_ = hangs;
  }
  void AwaitHanging() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* waiting) { return *waiting > 0; }, &waiting_));
  }
  std::vector<Token> rows() const {
    absl::MutexLock lock(&mutex_);
    return rows_;
  }
  int use_writes() const {
    absl::MutexLock lock(&mutex_);
    return use_writes_;
  }

 private:
  void AwaitDisk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++waiting_;
    mutex_.Await(absl::Condition(
        +[](bool* hangs) { return !*hangs; }, &hangs_));
    --waiting_;
  }

  mutable absl::Mutex mutex_;
  std::vector<Token> rows_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int use_writes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::access

#endif  // MPSD_TESTS_SERVER_ACCESS_FAKE_TOKENS_H_
