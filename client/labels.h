// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_LABELS_H_
#define MPSD_CLIENT_LABELS_H_

#include <google/protobuf/map.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mpsd::client {

// Adds each "NAME=VALUE" to `labels`. InvalidArgument, naming the text, for a
// text of another form, an empty name, or a name given twice with different
// values.
absl::Status AddLabels(const std::vector<std::string>& texts,
                       google::protobuf::Map<std::string, std::string>* labels);

// "a=1, b=2", sorted by name.
std::string LabelsText(
    const google::protobuf::Map<std::string, std::string>& labels);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_LABELS_H_
