// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_RECORD_TEXTS_H_
#define MPSD_SERVER_STORE_RECORD_TEXTS_H_

#include <cstdint>
#include <string>

#include "server/store/connection.h"

// The index of the logbook's texts (migrations/0021_logbook.sql): those of
// record R have the place R * 256, those of its note N the place R * 256 + N.
// Each call belongs into the transaction that changes the record, and throws as
// Connection does.
namespace mpsd::store {

inline constexpr int64_t kPlacesOfRecord = 256;

// Replaces the texts at a place.
void PutTexts(Connection& c, int64_t place, const std::string& texts)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());
// Removes all texts of a record.
void RemoveTexts(Connection& c, int64_t record)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());
// Gives the texts of one record to another, which has none.
void MoveTexts(Connection& c, int64_t from, int64_t to)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_RECORD_TEXTS_H_
