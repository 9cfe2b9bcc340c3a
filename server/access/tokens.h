// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_TOKENS_H_
#define MPSD_SERVER_ACCESS_TOKENS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/access/caller.h"

namespace mpsd::access {

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

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_TOKENS_H_
