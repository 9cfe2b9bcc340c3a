// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_EVALUATION_H_
#define MPSD_CLIENT_EVALUATION_H_

#include <google/protobuf/map.h>

#include <ostream>
#include <string>

#include "mpsd/v1/jobs.pb.h"

// What a task is judged by, as people read it.
namespace mpsd::client {

using MetricMap = google::protobuf::Map<std::string, double>;

// "accuracy 0.8750, f1 0.8333", by name.
std::string MetricsText(const MetricMap& metrics);

// A line a metric under a header: of the latest evaluation, and of the best one
// where it is another. Nothing for a job without metrics.
void PrintMetrics(const v1::Job& job, std::ostream& out);

// Job.confusion_matrix_json as a table, true labels down and predicted ones
// across. Nothing for what is empty or no such matrix.
void PrintConfusionMatrix(const std::string& json, std::ostream& out);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_EVALUATION_H_
