// SPDX-License-Identifier: Apache-2.0
#include "client/log_tail.h"

#include <algorithm>

#include "client/connection.h"

namespace mpsd::client {
namespace {

// Whether the log has a byte at `offset`. The API does not tell a log's size.
grpc::Status Reaches(const Console& console, const std::string& job_id,
                     int64_t offset, bool* reaches) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::LogsRequest request;
  request.set_id(job_id);
  request.set_offset_bytes(offset);
  auto reader = console.daemon.jobs().Logs(&context, request);
  v1::LogChunk chunk;
  *reaches = reader->Read(&chunk);
  if (*reaches) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return *reaches ? grpc::Status::OK : status;
}

// Finds a multiple of `step` that the log reaches while it does not reach the
// next one.
grpc::Status LastReached(const Console& console, const std::string& job_id,
                         int64_t step, int64_t* offset) {
  int64_t least = 0, beyond = 1;  // in steps
  grpc::Status status;
  for (bool reaches = true; status.ok() && reaches;) {
    status = Reaches(console, job_id, beyond * step, &reaches);
    if (reaches) least = beyond;
    if (reaches) beyond *= 2;
  }
  while (status.ok() && beyond - least > 1) {
    const int64_t middle = least + (beyond - least) / 2;
    bool reaches = false;
    status = Reaches(console, job_id, middle * step, &reaches);
    (reaches ? least : beyond) = middle;
  }
  *offset = least * step;
  return status;
}

}  // namespace

grpc::Status ReadLogTail(const Console& console, const std::string& job_id,
                         int64_t most_bytes, LogTail* tail) {
  const int64_t step = most_bytes / 2;
  int64_t offset = 0;
  grpc::Status status = LastReached(console, job_id, step, &offset);
  if (!status.ok()) return status;
  tail->before_bytes = offset > step ? offset - step : 0;
  grpc::ClientContext context;
  SetDeadline(context);
  v1::LogsRequest request;
  request.set_id(job_id);
  request.set_offset_bytes(tail->before_bytes);
  auto reader = console.daemon.jobs().Logs(&context, request);
  v1::LogChunk chunk;
  // A running job's log grows meanwhile.
  while (static_cast<int64_t>(tail->text.size()) < most_bytes &&
         reader->Read(&chunk)) {
    tail->text += chunk.data();
  }
  context.TryCancel();
  status = reader->Finish();
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    status = grpc::Status::OK;
  }
  tail->text.resize(
      std::min<size_t>(tail->text.size(), static_cast<size_t>(most_bytes)));
  if (tail->before_bytes > 0) {
    const size_t line = tail->text.find('\n') + 1;  // npos + 1 is 0
    tail->text.erase(0, line);
    tail->before_bytes += static_cast<int64_t>(line);
  }
  return status;
}

}  // namespace mpsd::client
