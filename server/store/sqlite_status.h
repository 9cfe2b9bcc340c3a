// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_SQLITE_STATUS_H_
#define MPSD_SERVER_STORE_SQLITE_STATUS_H_

#include <string>
#include <utility>

#include "SQLiteCpp/Exception.h"
#include "absl/status/status.h"

namespace mpsd::store {

// The status for a failed call of SQLite:
//   FULL → ResourceExhausted, BUSY and LOCKED → Unavailable, CORRUPT and NOTADB
//   → DataLoss, UNIQUE and PRIMARY KEY → AlreadyExists, RAISE in a trigger →
//   FailedPrecondition, READONLY, PERM and CANTOPEN → PermissionDenied,
//   INTERRUPT (time_limit.h) → DeadlineExceeded, IOERR and all others →
//   Internal.
// The text is "<what>: <SQLite's words>", with what to do where that helps.
absl::Status StatusOf(const SQLite::Exception& error, const std::string& what);

// Returns body(), which returns absl::Status or absl::StatusOr<T>, or a status
// for the exception that body() throws. The only catch in this room.
template <typename Body>
auto CatchSqlite(const std::string& what, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const SQLite::Exception& error) {
    return StatusOf(error, what);
  }
}

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_SQLITE_STATUS_H_
