// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_TARGET_H_
#define MPSD_SERVER_HTTP_TARGET_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::http {

// What a request asks for: "/api/jobs?states=JOB_STATE_QUEUED&page_size=5".
struct Target {
  std::vector<std::string> path;  // the parts between slashes, without empty
                                  // ones: "api", "jobs"
  std::vector<std::pair<std::string, std::string>> query;
};

// Percent codes are read, in the query "+" too. InvalidArgument for a code that
// is none, a byte of control or a target that does not begin with "/".
absl::StatusOr<Target> ParseTarget(const std::string& text);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_TARGET_H_
