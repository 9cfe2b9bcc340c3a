// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "server/access/rules.h"
#include "server/store/token_store.h"

namespace mpsd::access {

// The user of an account of this machine: the account's name, or "uid-1234" if
// the account has no name or one that no user may have (access::IsUserName). A
// name of the form "uid-NUMBER" counts as none, so that no account can
// impersonate another. Unavailable if the name service fails. Blocks for as
// long as the name service does.
absl::StatusOr<std::string> AccountName(uid_t uid);

// AccountName's result for an account whose system name is `name`.
std::string UserOf(uid_t uid, const std::string& name);

// Whether `text` can be a token's id. Text that cannot be one is not quoted: it
// may be the token itself, given by mistake.
bool IsTokenId(std::string_view text);

// Looks up tokens. Thread-safe; never waits for a disk, since gRPC's own
// threads call it.
class TokenLookup {
 public:
  virtual ~TokenLookup() = default;
  // The caller that `secret` authenticates, without its origin; nullopt if
  // there is no such token, or no longer.
  virtual std::optional<Caller> Find(std::string_view secret) = 0;
};

// An admin's request for a new token. The caller has checked the fields.
struct TokenOrder {
  std::string user;
  Role role = Role::kViewer;
  std::string note;
  std::optional<absl::Time> expire_time;  // absent: never
  std::string created_by;
};

struct NewToken {
  std::string secret;  // what the client sends; it cannot be retrieved again
  Token token;
};

// The tokens, in memory and in the store. Thread-safe: Find never waits for the
// disk, and creating or revoking a token does not block Find.
//
// A token expires when the wall clock reaches its time of expiry, or once as
// much time has passed as was left when it was made or the book was opened, so
// that setting back the clock prolongs nothing while mpsd runs.
class TokenBook final : public TokenLookup {
 public:
  struct Options {
    // Returns that many cryptographically secure random bytes, or an error.
    std::function<absl::StatusOr<std::string>(size_t)> random;
    // Ends the streams that were opened with a credential (Caller::credential)
    // and returns how many. Called on any thread, without a lock.
    std::function<int(const std::string&)> end_streams =
        [](const std::string&) { return 0; };
    // Called after Create, on its thread: Tend may be due sooner than it
    // returned.
    std::function<void()> on_change = [] {};
    // Gets a line for each error of the store; called from Tend.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  // Options with the system's random bytes.
  static Options SystemOptions();

  // Reads the store. `store` and `clock` must outlive the book.
  static absl::StatusOr<std::unique_ptr<TokenBook>> Open(
      Tokens& store, const base::Clock& clock, Options options);
  // Writes the last uses.
  ~TokenBook() override;
  TokenBook(const TokenBook&) = delete;
  TokenBook& operator=(const TokenBook&) = delete;

  std::optional<Caller> Find(std::string_view secret) override;

  // Creates a token, durable on return. ResourceExhausted if limits::kTokens
  // exist; else the store's errors.
  absl::StatusOr<NewToken> Create(const TokenOrder& order);

  // Revokes a token at once, and then ends its streams; returns how many.
  // NotFound for an unknown id. After an error of the store the token is
  // refused until mpsd restarts, and Revoke can be called again.
  absl::StatusOr<int> Revoke(const std::string& id);

  // The wall clock by which tokens expire.
  absl::Time now() const { return clock_.Now(); }
  // The newest first, including expired ones until they are revoked.
  std::vector<Token> List() const;
  // Nullopt for an unknown id.
  std::optional<Token> Get(const std::string& id) const;

  // Ends the streams of expired tokens and writes the last uses; returns when
  // to call it again. Waits for the disk. One thread at a time.
  absl::Time Tend();

 private:
  struct Entry {
    Token token;
    int64_t number = 0;  // in the order in which they were made
    // On the monotonic clock; InfiniteDuration: never.
    absl::Duration deadline = absl::InfiniteDuration();
    bool revoked = false;        // refused, and possibly still in the store
    bool use_unwritten = false;  // token.last_use is newer than the store's
    bool streams_ended = false;  // for its expiry
  };
  // One moment on both clocks.
  struct Moment {
    absl::Time wall;
    absl::Duration monotonic;
  };

  TokenBook(Tokens& store, const base::Clock& clock, Options options)
      : store_(store), clock_(clock), options_(std::move(options)) {}
  Moment Now() const { return {clock_.Now(), clock_.Monotonic()}; }
  static absl::Duration Left(const Entry& entry, const Moment& now);
  void Add(Token token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<NewToken> MakeToken(const TokenOrder& order) const;
  // The credentials whose streams must end now.
  std::vector<std::string> Ended(const Moment& now);
  void WriteUses();
  absl::Time NextTime(const Moment& now) const;

  Tokens& store_;
  const base::Clock& clock_;
  const Options options_;
  // Held while the store changes, so that memory and store agree. Locked before
  // mutex_.
  absl::Mutex changes_;
  mutable absl::Mutex mutex_;  // never held while the store works
  std::map<std::string, Entry, std::less<>> entries_
      ABSL_GUARDED_BY(mutex_);  // by id
  int64_t made_ ABSL_GUARDED_BY(mutex_) = 0;
};

// "token 0a1b2c3d4e5f": the credential of a caller with the token.
std::string TokenCredential(const std::string& id);
// The id in a credential; nullopt if the credential is not a token's.
std::optional<std::string> CredentialTokenId(const std::string& credential);

}  // namespace mpsd::access
