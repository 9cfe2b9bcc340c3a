// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_EVALUATION_H_
#define MPSD_CLIENT_EVALUATION_H_

#include <google/protobuf/map.h>

#include <ostream>
#include <string>

#include "mpsd/v1/jobs.pb.h"

// Prints a task's evaluation for people.
namespace mpsd::client {

using MetricMap = google::protobuf::Map<std::string, double>;

// "accuracy 0.8750, f1 0.8333", by name.
std::string MetricsText(const MetricMap& metrics);

// Prints a header and one line a metric: the latest evaluation, and the best
// one where that is another. Prints nothing for a job without metrics.
void PrintMetrics(const v1::Job& job, std::ostream& out);

// Prints Job.confusion_matrix_json as a table, true labels down and predicted
// labels across. Prints nothing for an empty text or another JSON.
void PrintConfusionMatrix(const std::string& json, std::ostream& out);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_EVALUATION_H_
