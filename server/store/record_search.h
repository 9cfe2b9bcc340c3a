// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_RECORD_SEARCH_H_
#define MPSD_SERVER_STORE_RECORD_SEARCH_H_

#include <cstdint>
#include <vector>

#include "server/logbook/record_store.h"
#include "server/store/connection.h"

namespace mpsd::store {

// The numbers of the records that match, the latest first, at most
// search.limit. What a query says reaches SQLite as parameters alone; the names
// of columns are those of server/logbook/record_fields.h. Throws as Connection
// does.
std::vector<int64_t> FindRecords(Connection& c,
                                 const logbook::RecordSearch& search)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex());

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_RECORD_SEARCH_H_
