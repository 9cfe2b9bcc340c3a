// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_LOGS_H_
#define MPSD_CLIENT_LOGS_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

#include "client/console.h"

namespace mpsd::client {

struct LogTail {
  std::string text;          // begins with a line where bytes are omitted
  int64_t before_bytes = 0;  // of the log before `text`
};

// Reads the end of a job's log, at most `most_bytes`, without reading the rest,
// however long the log is.
grpc::Status ReadLogTail(const Console& console, const std::string& job_id,
                         int64_t most_bytes, LogTail* tail);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_LOGS_H_
