// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/report/report.h"

namespace mpsd::store {
class Database;
}  // namespace mpsd::store

// Who calls, the tokens that authenticate callers, and the audit of what they
// did.

namespace mpsd::access {

// Each role may do what the one before it may. The numbers are stored in the
// database and never reused.
enum class Role {
  kViewer = 1,  // reads
  kUser = 2,    // submits, and changes what is the user's own
  kAdmin = 3,   // changes everything
};
inline constexpr report::EnumName<Role> kRoles[] = {
    {Role::kViewer, "viewer"}, {Role::kUser, "user"}, {Role::kAdmin, "admin"}};
constexpr std::string_view Name(Role role) {
  return report::NameIn(kRoles, role);
}

// How a caller is authenticated. The numbers are stored in the database and
// never reused.
enum class Way {
  kSocket = 1,  // the unix socket: the kernel names the account
  kToken = 2,   // a bearer token
  // 3 was a client certificate; rows of the audit may hold it.
  kPage = 4,  // the web page: an anonymous viewer
};
inline constexpr report::EnumName<Way> kWays[] = {
    {Way::kSocket, "socket"}, {Way::kToken, "token"}, {Way::kPage, "page"}};
constexpr std::string_view Name(Way way) { return report::NameIn(kWays, way); }

// The caller of a method.
struct Caller {
  std::string user;  // at most limits::kUserBytes; owner of what it submits
  Role role = Role::kViewer;
  Way way = Way::kSocket;
  // The account's number ("uid 501") or the token's id ("token 0a1b2c3d4e5f"):
  // names a credential, but is no secret.
  std::string credential;
  std::string origin;  // the machine's address; "this machine" for the socket

  bool operator==(const Caller&) const = default;
};

// What mpsd stores of a token. None of it is secret.
struct Token {
  std::string sha256;  // of the text that clients send; 64 hexadecimal digits
  std::string user;
  Role role = Role::kViewer;
  std::string note;  // human-readable; at most limits::kTokenNoteBytes
  absl::Time create_time;
  std::optional<absl::Time> expire_time;  // absent: never
  std::optional<absl::Time> last_use;     // to the minute; absent: never used
  std::string created_by;                 // the user who made it

  bool operator==(const Token&) const = default;
};

// The first digits of a token's SHA-256, by which users name the token.
inline constexpr size_t kTokenIdDigits = 12;
inline std::string TokenId(std::string_view sha256) {
  return std::string(sha256.substr(0, kTokenIdDigits));
}

// Where the tokens outlive the process. Thread-safe.
class Tokens {
 public:
  // `database` must outlive the object.
  explicit Tokens(store::Database& database) : database_(database) {}

  // In the order in which they were inserted. DataLoss for an unreadable row.
  absl::StatusOr<std::vector<Token>> All();
  // Durable once it returns OK. AlreadyExists for an id that another token has.
  absl::Status Insert(const Token& token);
  // Durable once it returns OK. OK if there is no such token.
  absl::Status Remove(const std::string& id);
  // Stores when tokens, by their ids, were last used; omits unknown ones. A
  // power cut may undo it.
  absl::Status SetLastUses(
      absl::Span<const std::pair<std::string, absl::Time>> uses);

 private:
  store::Database& database_;
};

// A request, before its outcome is known.
struct Request {
  Caller caller;       // with an empty user: unknown
  std::string method;  // "JobService.Cancel"
  std::string job_id;  // empty: none, or one that is not made yet
  // Human-readable; without secrets and data. Cut to limits::kAuditBytes.
  std::string detail;
};

// A request and its outcome.
struct AuditEntry {
  int64_t number = 0;  // counts the entries from 1
  absl::Time time;
  Request request;
  // Absent for a request in progress, or that mpsd did not survive.
  std::optional<absl::StatusCode> result;
  std::string message;  // of the error
};

struct AuditFilter {
  std::string user;    // empty: all
  std::string job_id;  // empty: all
  // "JobService.Cancel", or "Cancel" of any service; empty: all
  std::string method;
  bool refused = false;  // only entries whose result is an error
  absl::Time since = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();  // exclusive
  int64_t before = INT64_MAX;                 // number, exclusive
  int limit = 50;
};

// Stores audit entries. A change survives a kill of mpsd at once, and a power
// cut no later than the next change of a job does. Thread-safe.
class AuditStore {
 public:
  // The maximum number of entries that one Prune removes.
  static constexpr int64_t kPruned = 10'000;

  // `database` must outlive the object.
  explicit AuditStore(store::Database& database) : database_(database) {}

  // Returns the new entry's number; the number in `entry` is ignored.
  absl::StatusOr<int64_t> Append(const AuditEntry& entry);
  // Does nothing if the entry is gone. An empty `job_id` keeps the entry's.
  absl::Status SetResult(int64_t number, const absl::Status& result,
                         const std::string& job_id);
  // Newest first.
  absl::StatusOr<std::vector<AuditEntry>> List(const AuditFilter& filter);
  // Removes the entries before `time`, and then, while there are more than
  // `most_entries`, the oldest ones of the user who has the most: no user can
  // push out another's entries with many requests. Removes a bounded number per
  // call, and returns how many.
  absl::StatusOr<int64_t> Prune(absl::Time time, int64_t most_entries);

 private:
  store::Database& database_;
};

}  // namespace mpsd::access
