// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_TOKEN_BOOK_H_
#define MPSD_SERVER_ACCESS_TOKEN_BOOK_H_

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

namespace mpsd::access {

// The user that an account of this machine is: the account's name, or
// "uid-1234" where the account has no name or a name that no user may have
// (access::IsUserName). A name of the form "uid-NUMBER" counts as none, so that
// no account can pass for another. Unavailable where the name service fails.
// Blocks for as long as the name service does.
absl::StatusOr<std::string> AccountName(uid_t uid);

// AccountName's answer for an account that the system calls `name`.
std::string UserOf(uid_t uid, const std::string& name);

// What mpsd keeps of a token. None of it is secret.
struct Token {
  std::string sha256;  // of the text that clients send; 64 hexadecimal digits
  std::string user;
  Role role = Role::kViewer;
  std::string note;  // for people; at most limits::kTokenNoteBytes
  absl::Time create_time;
  std::optional<absl::Time> expire_time;  // absent: never
  std::optional<absl::Time> last_use;     // to the minute; absent: never used
  std::string created_by;                 // the user who made it

  bool operator==(const Token&) const = default;
};

// The first digits of a token's SHA-256, by which people name the token.
inline constexpr size_t kTokenIdDigits = 12;
inline std::string TokenId(std::string_view sha256) {
  return std::string(sha256.substr(0, kTokenIdDigits));
}

// Whether `text` can be a token's id. What cannot be one is not quoted: it may
// be the token itself, which somebody gave by mistake.
bool IsTokenId(std::string_view text);

// Where the tokens outlive the process. Thread-safe.
class Tokens {
 public:
  virtual ~Tokens() = default;
  // In the order in which they were inserted. DataLoss for a row that nobody
  // can read.
  virtual absl::StatusOr<std::vector<Token>> All() = 0;
  // Durable once it returns OK. AlreadyExists for an id that another token has.
  virtual absl::Status Insert(const Token& token) = 0;
  // Durable once it returns OK. OK where there is no such token.
  virtual absl::Status Remove(const std::string& id) = 0;
  // Notes when tokens, by their ids, were used last; leaves out those that are
  // not there. A power cut may undo it.
  virtual absl::Status SetLastUses(
      absl::Span<const std::pair<std::string, absl::Time>> uses) = 0;
};

// Knows the tokens. Thread-safe; waits for no disk, since gRPC's own threads
// ask.
class TokenLookup {
 public:
  virtual ~TokenLookup() = default;
  // The caller that `secret` stands for, but for its origin; nullopt where
  // there is no such token, or not any more.
  virtual std::optional<Caller> Find(std::string_view secret) = 0;
};

// What an admin asks for: a token that is yet to be made. The caller has
// checked the fields.
struct TokenOrder {
  std::string user;
  Role role = Role::kViewer;
  std::string note;
  std::optional<absl::Time> expire_time;  // absent: never
  std::string created_by;
};

struct NewToken {
  std::string secret;  // what the client sends; nobody can ask for it again
  Token token;
};

// The tokens, in memory and in the store behind it. Thread-safe: Find waits for
// no disk, and whoever makes or revokes a token holds up no Find.
//
// A token ends when the wall clock reaches its time of expiry, and also once as
// much time has passed as was left of it when it was made or the book opened,
// so that a clock that is set back prolongs nothing while mpsd runs.
class TokenBook final : public TokenLookup {
 public:
  struct Options {
    // Returns so many random bytes that nobody can guess, or why there are
    // none.
    std::function<absl::StatusOr<std::string>(size_t)> random;
    // Ends the streams that were opened with a credential (Caller::credential)
    // and returns how many. Called on any thread, without a lock.
    std::function<int(const std::string&)> end_streams =
        [](const std::string&) { return 0; };
    // Called after Create, from its thread: Tend may be needed sooner than it
    // said.
    std::function<void()> on_change = [] {};
    // Gets a line for each fault of the store; called from Tend.
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

  // Makes a token, which is durable then. ResourceExhausted where
  // limits::kTokens exist; else the store's errors.
  absl::StatusOr<NewToken> Create(const TokenOrder& order);

  // Ends a token at once, and then its streams; returns how many. NotFound for
  // an unknown id. After an error of the store the token is refused until mpsd
  // restarts, and Revoke can be called again.
  absl::StatusOr<int> Revoke(const std::string& id);

  // The newest first; those that have expired, too, until they are revoked.
  std::vector<Token> List() const;
  // Nullopt for an unknown id.
  std::optional<Token> Get(const std::string& id) const;

  // Ends the streams of tokens that have expired and writes the last uses;
  // returns when to call it again. Waits for the disk. One thread at a time.
  absl::Time Tend();

 private:
  struct Entry {
    Token token;
    int64_t number = 0;  // in the order in which they were made
    // On the monotonic clock; InfiniteDuration: never.
    absl::Duration deadline = absl::InfiniteDuration();
    bool revoked = false;        // refused, and maybe still in the store
    bool use_unwritten = false;  // token.last_use is newer than the store's
    bool streams_ended = false;  // for its expiry
  };
  // One moment by both clocks.
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
  // The credentials whose streams are to be ended now.
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

// "token 0a1b2c3d4e5f": the credential of who comes with the token.
std::string TokenCredential(const std::string& id);
// The id in a credential; nullopt where the credential is no token's.
std::optional<std::string> CredentialTokenId(const std::string& credential);

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_TOKEN_BOOK_H_
