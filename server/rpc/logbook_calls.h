// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LOGBOOK_CALLS_H_
#define MPSD_SERVER_RPC_LOGBOOK_CALLS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mpsd/v1/logbook.pb.h"
#include "server/access/rules.h"
#include "server/logbook/logbook.h"

namespace mpsd::rpc {

// The calls of LogbookService; errors as the proto states. A record that the
// caller may not read is, in each answer, a record that does not exist. `now`:
// what a query's since:30d counts from.
absl::Status SearchRecords(logbook::Logbook& logbook,
                           const access::Rights& rights,
                           const v1::SearchRecordsRequest& request,
                           absl::Time now, v1::SearchRecordsResponse& response);
absl::Status GetRecord(logbook::Logbook& logbook, const access::Rights& rights,
                       const v1::GetRecordRequest& request,
                       v1::Record& response);
absl::Status AddNote(logbook::Logbook& logbook, const access::Rights& rights,
                     const v1::AddNoteRequest& request, v1::Record& response);
absl::Status TagRecord(logbook::Logbook& logbook, const access::Rights& rights,
                       const v1::TagRecordRequest& request,
                       v1::Record& response);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_LOGBOOK_CALLS_H_
