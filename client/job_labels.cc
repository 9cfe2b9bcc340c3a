// SPDX-License-Identifier: Apache-2.0
#include "client/job_labels.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace mpsd::client {

absl::Status AddJobLabels(
    const std::vector<std::string>& texts,
    google::protobuf::Map<std::string, std::string>* job_labels) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label '", text, "': expected NAME=VALUE"));
    }
    const std::string name = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    auto known = job_labels->find(name);
    if (known != job_labels->end() && known->second != value) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label ", name, " is given twice, as '", known->second,
                       "' and '", value, "'"));
    }
    (*job_labels)[name] = value;
  }
  return absl::OkStatus();
}

std::string JobLabelsText(
    const google::protobuf::Map<std::string, std::string>& job_labels) {
  std::string text;
  for (const auto& [name, value] : std::map<std::string, std::string>(
           job_labels.begin(), job_labels.end())) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, "=", value);
  }
  return text;
}

}  // namespace mpsd::client
