// SPDX-License-Identifier: Apache-2.0
#include "client/record_pages.h"

#include <algorithm>

#include "core/base/limits.h"

namespace mpsd::client {

grpc::Status ForEachRecord(
    const Console& console, const std::string& query, int64_t most,
    const std::function<bool(const v1::Record&)>& visit) {
  v1::SearchRecordsRequest request;
  request.set_query(query);
  int64_t left = most;
  do {
    request.set_page_size(
        static_cast<int>(std::min<int64_t>(limits::kRecordPage, left)));
    grpc::ClientContext context;
    SetDeadline(context);
    v1::SearchRecordsResponse response;
    grpc::Status status =
        console.daemon.logbook().SearchRecords(&context, request, &response);
    if (!status.ok()) return status;
    for (const v1::Record& record : response.records()) {
      if (!visit(record)) return grpc::Status::OK;
      --left;
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() && left > 0);
  return grpc::Status::OK;
}

grpc::Status FetchRecord(const Console& console, const std::string& id,
                         v1::Record* record) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRecordRequest request;
  request.set_id(id);
  return console.daemon.logbook().GetRecord(&context, request, record);
}

}  // namespace mpsd::client
