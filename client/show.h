// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SHOW_H_
#define MPSD_CLIENT_SHOW_H_

#include <google/protobuf/map.h>
#include <grpcpp/support/status.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

// Prints a task's evaluation, human-readable.

namespace mpsd::client {

using MetricMap = google::protobuf::Map<std::string, double>;

// "accuracy 0.8750, f1 0.8333", by name.
std::string MetricsText(const MetricMap& metrics);

// Prints a header and one line per metric: the latest evaluation, and the best
// one if that is another. Prints nothing for a job without metrics.
void PrintMetrics(const v1::Job& job, std::ostream& out);

// Prints Job.confusion_matrix_json as a table, true labels down and predicted
// labels across. Prints nothing for an empty text or another JSON.
void PrintConfusionMatrix(const std::string& json, std::ostream& out);

// A part of a record in words: names and values, "-" for unknown.
struct RecordSection {
  std::string title;  // "ENVIRONMENT"
  std::vector<std::pair<std::string, std::string>> rows;
};

// The record except notes, tags and the spec. `results`: including how it
// ended, which the job's own lines also show.
std::vector<RecordSection> DescribeRecord(const v1::JobRecord& record,
                                          bool results, absl::TimeZone zone);

// The part of a record that `show` prints below the job's own lines.
void PrintRecord(const Console& console, const v1::GetRecordResponse& shown);

// Fetches a job, deleted or not, and its record. If the caller may not read the
// record, the response contains only the job's public part.
grpc::Status FetchRecord(const Console& console, const std::string& id,
                         v1::GetRecordResponse* response);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SHOW_H_
