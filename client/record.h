// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RECORD_H_
#define MPSD_CLIENT_RECORD_H_

#include <grpcpp/support/status.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// A part of a record in words: names and values, "-" for what is not known.
struct RecordSection {
  std::string title;  // "ENVIRONMENT"
  std::vector<std::pair<std::string, std::string>> rows;
};

// The record but for notes, tags and the spec. `results`: with what the job's
// own lines say of how it ended.
std::vector<RecordSection> DescribeRecord(const v1::JobRecord& record,
                                          bool results, absl::TimeZone zone);

// Everything that `show` prints of a record below the job's own lines.
void PrintRecord(const Console& console, const v1::GetRecordResponse& shown);

// Fetches a job, deleted or not, and its record. Of a job whose record the
// caller may not read the response has the public part of the job alone.
grpc::Status FetchRecord(const Console& console, const std::string& id,
                         v1::GetRecordResponse* response);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RECORD_H_
