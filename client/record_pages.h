// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RECORD_PAGES_H_
#define MPSD_CLIENT_RECORD_PAGES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "client/console.h"
#include "mpsd/v1/logbook.pb.h"

namespace mpsd::client {

// Fetches the records that `query` finds, a page at a time, and calls `visit`
// for each, the latest first; at most `most`. False from `visit` ends it.
grpc::Status ForEachRecord(const Console& console, const std::string& query,
                           int64_t most,
                           const std::function<bool(const v1::Record&)>& visit);

// Fetches one record by its id, or a part of it.
grpc::Status FetchRecord(const Console& console, const std::string& id,
                         v1::Record* record);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RECORD_PAGES_H_
