// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_TARGET_H_
#define MPSD_SERVER_HTTP_TARGET_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::http {

// A request's target: "/api/jobs?states=JOB_STATE_QUEUED&page_size=5".
struct Target {
  std::vector<std::string> path;  // the parts between slashes, without empty
                                  // ones: "api", "jobs"
  std::vector<std::pair<std::string, std::string>> query;
};

// Percent codes are decoded, in the query "+" too. InvalidArgument for an
// invalid code, a control character or a target that does not begin with "/".
absl::StatusOr<Target> ParseTarget(const std::string& text);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_TARGET_H_
