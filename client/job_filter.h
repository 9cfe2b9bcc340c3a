// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_JOB_FILTER_H_
#define MPSD_CLIENT_JOB_FILTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/command_line.h"
#include "client/terminal.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// The options by which a verb names many jobs.
struct JobFilter {
  std::vector<std::string> states;
  std::string owner;
  std::vector<std::string> job_labels;
  std::vector<std::string> tags;
  std::string since, until, ended_since, ended_until;
  std::string text;
  std::string model;
  bool pinned = false;
  bool held = false;

  bool operator==(const JobFilter&) const = default;
};

// `filter` must outlive the parse.
void AddJobFilter(Command* verb, JobFilter* filter);

// Sets the fields that filter in `request`. InvalidArgument names the option.
absl::Status FillFilter(const JobFilter& filter, const Terminal& terminal,
                        v1::ListJobsRequest& request);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_JOB_FILTER_H_
