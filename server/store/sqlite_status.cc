// SPDX-License-Identifier: Apache-2.0
#include "server/store/sqlite_status.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"

namespace mpsd::store {
namespace {

absl::Status ConstraintStatus(int extended_code, const std::string& text) {
  switch (extended_code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
      return absl::AlreadyExistsError(text);
    case SQLITE_CONSTRAINT_TRIGGER:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace

absl::Status StatusOf(const SQLite::Exception& error, const std::string& what) {
  const std::string text = absl::StrCat(what, ": ", error.what());
  switch (error.getErrorCode()) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; free space on the state folder's disk"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(
          absl::StrCat(text, "; another program holds the database"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(
          absl::StrCat(text,
                       "; restore mpsd.db from a backup, or move it away "
                       "to start with an empty queue"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return absl::PermissionDeniedError(
          absl::StrCat(text, "; mpsd needs to write its state folder"));
    case SQLITE_INTERRUPT:
      return absl::DeadlineExceededError(text);
    case SQLITE_CONSTRAINT:
      return ConstraintStatus(error.getExtendedErrorCode(), text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace mpsd::store
