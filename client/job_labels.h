// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_JOB_LABELS_H_
#define MPSD_CLIENT_JOB_LABELS_H_

#include <google/protobuf/map.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mpsd::client {

// Adds each "NAME=VALUE" to `job_labels`. InvalidArgument, naming the text, for
// a text of another form, an empty name, or a name given twice with different
// values.
absl::Status AddJobLabels(
    const std::vector<std::string>& texts,
    google::protobuf::Map<std::string, std::string>* job_labels);

// "a=1, b=2", sorted by name.
std::string JobLabelsText(
    const google::protobuf::Map<std::string, std::string>& job_labels);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_JOB_LABELS_H_
