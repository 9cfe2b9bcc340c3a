// SPDX-License-Identifier: Apache-2.0
#include "server/access/token_book.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/api_token.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"

namespace mpsd::access {
namespace {

constexpr char kNameless[] = "uid-";
constexpr size_t kMostBytes = 1 << 20;  // of an account's entry

}  // namespace

std::string UserOf(uid_t uid, const std::string& name) {
  const bool is_own = IsUserName(name) && !name.starts_with(kNameless);
  return is_own ? name : absl::StrCat(kNameless, uid);
}

absl::StatusOr<std::string> AccountName(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(4096);
  int error = 0;
  while (true) {
    error = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (error == EINTR) continue;
    if (error != ERANGE || buffer.size() >= kMostBytes) break;
    buffer.resize(buffer.size() * 2);
  }
  if (found != nullptr) return UserOf(uid, found->pw_name);
  // getpwuid(3) lists these numbers next to 0 for an account without a name.
  if (error == 0 || error == ENOENT || error == ESRCH || error == EBADF ||
      error == EPERM) {
    return UserOf(uid, "");
  }
  return absl::UnavailableError(
      absl::StrCat("the name of the account ", uid,
                   " is not known: ", std::generic_category().message(error)));
}

namespace {

constexpr absl::string_view kCredentialPrefix = "token ";
// Two tokens with one id are so rare that several in a row are a fault.
constexpr int kTries = 8;
// How often a token's last use is written; last uses have minute precision.
constexpr absl::Duration kWriteInterval = absl::Minutes(1);
// Compared if there is no token, so that a wrong id takes as long as a wrong
// secret.
constexpr char kNoSha256[] =
    "0000000000000000000000000000000000000000000000000000000000000000";

absl::StatusOr<std::string> SystemRandom(size_t bytes) {
  std::string random(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()),
                 static_cast<int>(bytes)) != 1) {
    return absl::InternalError("the system gives no random bytes");
  }
  return random;
}

bool SameDigest(const std::string& a, const std::string& b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::Time Minute(absl::Time time) {
  return absl::UnixEpoch() +
         absl::Floor(time - absl::UnixEpoch(), absl::Minutes(1));
}

// Stored times have microseconds.
absl::Time Microseconds(absl::Time time) {
  return absl::FromUnixMicros(absl::ToUnixMicros(time));
}

}  // namespace

bool IsTokenId(std::string_view text) {
  return text.size() == kTokenIdDigits &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string TokenCredential(const std::string& id) {
  return absl::StrCat(kCredentialPrefix, id);
}

std::optional<std::string> CredentialTokenId(const std::string& credential) {
  absl::string_view id = credential;
  if (!absl::ConsumePrefix(&id, kCredentialPrefix)) return std::nullopt;
  return std::string(id);
}

TokenBook::Options TokenBook::SystemOptions() {
  Options options;
  options.random = SystemRandom;
  return options;
}

absl::StatusOr<std::unique_ptr<TokenBook>> TokenBook::Open(
    Tokens& store, const base::Clock& clock, Options options) {
  ASSIGN_OR_RETURN(std::vector<Token> all, store.All());
  std::unique_ptr<TokenBook> book(
      new TokenBook(store, clock, std::move(options)));
  absl::MutexLock lock(&book->mutex_);
  for (Token& token : all) book->Add(std::move(token));
  return book;
}

TokenBook::~TokenBook() { WriteUses(); }

absl::Duration TokenBook::Left(const Entry& entry, const Moment& now) {
  if (!entry.token.expire_time.has_value()) return absl::InfiniteDuration();
  return std::min(*entry.token.expire_time - now.wall,
                  entry.deadline - now.monotonic);
}

void TokenBook::Add(Token token) {
  const Moment now = Now();
  Entry entry;
  if (token.expire_time.has_value()) {
    entry.deadline = now.monotonic + (*token.expire_time - now.wall);
  }
  entry.number = ++made_;
  entry.token = std::move(token);
  const std::string id = TokenId(entry.token.sha256);
  entries_.emplace(id, std::move(entry));
}

std::optional<Caller> TokenBook::Find(std::string_view secret) {
  if (secret.size() > limits::kTokenBytes) return std::nullopt;
  const std::string sha256 = base::Sha256Hex(secret);
  const std::string id = TokenId(sha256);
  const Moment now = Now();
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  const bool known = found != entries_.end();
  const bool same =
      SameDigest(known ? found->second.token.sha256 : kNoSha256, sha256);
  if (!known || !same) return std::nullopt;
  Entry& entry = found->second;
  if (entry.revoked || Left(entry, now) <= absl::ZeroDuration()) {
    return std::nullopt;
  }
  const absl::Time minute = Minute(now.wall);
  // Not only a later one: a clock that was ahead and was corrected would leave
  // a last use in the future.
  if (entry.token.last_use != minute) {
    entry.token.last_use = minute;
    entry.use_unwritten = true;
  }
  return Caller{entry.token.user, entry.token.role, Way::kToken,
                TokenCredential(id), ""};
}

absl::StatusOr<NewToken> TokenBook::MakeToken(const TokenOrder& order) const {
  ASSIGN_OR_RETURN(std::string random,
                   options_.random(base::kApiTokenSecretBytes));
  NewToken made;
  made.secret = base::ApiToken(random);
  Token& token = made.token;
  token.sha256 = base::Sha256Hex(made.secret);
  token.user = order.user;
  token.role = order.role;
  token.note = order.note;
  token.create_time = Microseconds(clock_.Now());
  if (order.expire_time.has_value()) {
    token.expire_time = Microseconds(*order.expire_time);
  }
  token.created_by = order.created_by;
  return made;
}

absl::StatusOr<NewToken> TokenBook::Create(const TokenOrder& order) {
  absl::MutexLock changes(&changes_);
  for (int i = 0; i < kTries; ++i) {
    ASSIGN_OR_RETURN(NewToken made, MakeToken(order));
    {
      absl::MutexLock lock(&mutex_);
      if (entries_.size() >= limits::kTokens) {
        return absl::ResourceExhaustedError(
            absl::StrCat(limits::kTokens,
                         " tokens exist, the maximum: revoke some that have "
                         "expired or are not used"));
      }
      if (entries_.contains(TokenId(made.token.sha256))) continue;
    }
    RETURN_IF_ERROR(store_.Insert(made.token));
    {
      absl::MutexLock lock(&mutex_);
      Add(made.token);
    }
    options_.on_change();
    return made;
  }
  return absl::InternalError(
      "the system's random bytes repeat: no new token can be made of them");
}

absl::StatusOr<int> TokenBook::Revoke(const std::string& id) {
  const std::string credential = TokenCredential(id);
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      return absl::NotFoundError(
          absl::StrCat("there is no token with the id '", id, "'"));
    }
    found->second.revoked = true;
  }
  // Before the store, whose disk may hang.
  const int ended = options_.end_streams(credential);
  absl::MutexLock changes(&changes_);
  if (const absl::Status s = store_.Remove(id); !s.ok()) {
    return absl::Status(
        s.code(),
        absl::StrCat(s.message(), "; token ", id,
                     " is refused from now on, but not removed: revoke it "
                     "again, or it is accepted again after a restart of mpsd"));
  }
  absl::MutexLock lock(&mutex_);
  entries_.erase(id);
  return ended;
}

std::vector<Token> TokenBook::List() const {
  std::vector<const Entry*> entries;
  std::vector<Token> tokens;
  absl::MutexLock lock(&mutex_);
  entries.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) {
    return a->number > b->number;
  });
  tokens.reserve(entries.size());
  for (const Entry* entry : entries) tokens.push_back(entry->token);
  return tokens;
}

std::optional<Token> TokenBook::Get(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  return found->second.token;
}

std::vector<std::string> TokenBook::Ended(const Moment& now) {
  std::vector<std::string> ended;
  absl::MutexLock lock(&mutex_);
  for (auto& [id, entry] : entries_) {
    const bool expired = Left(entry, now) <= absl::ZeroDuration();
    if (expired && !entry.streams_ended) ended.push_back(TokenCredential(id));
    // A clock that was ahead and was corrected makes a token valid again.
    entry.streams_ended = expired;
  }
  return ended;
}

void TokenBook::WriteUses() {
  std::vector<std::pair<std::string, absl::Time>> uses;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [id, entry] : entries_) {
      if (entry.use_unwritten) uses.emplace_back(id, *entry.token.last_use);
      entry.use_unwritten = false;
    }
  }
  if (uses.empty()) return;
  const absl::Status written = store_.SetLastUses(uses);
  if (written.ok()) return;
  options_.log(absl::StrCat("when tokens were last used: ", written.message()));
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, time] : uses) {
    const auto found = entries_.find(id);
    if (found != entries_.end()) found->second.use_unwritten = true;
  }
}

absl::Time TokenBook::NextTime(const Moment& now) const {
  absl::Duration next = kWriteInterval;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : entries_) {
    if (!entry.streams_ended) next = std::min(next, Left(entry, now));
  }
  return now.wall + std::max(next, absl::ZeroDuration());
}

absl::Time TokenBook::Tend() {
  // Streams first: the store's disk may hang.
  for (const std::string& credential : Ended(Now())) {
    options_.end_streams(credential);
  }
  WriteUses();
  return NextTime(Now());
}

}  // namespace mpsd::access
