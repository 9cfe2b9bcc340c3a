// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_QUEUE_OUTLOOK_H_
#define MPSD_SERVER_PLANNER_QUEUE_OUTLOOK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "server/jobs/job_manager.h"

namespace mpsd::planner {

// How long a job of `owner` would wait, were it queued now and changed nothing
// else. Tells a wait only where each job ahead tells what is left of it; jobs
// whose owners `may_read` (empty: everybody's) leaves out do not.
jobs::PlanQueue LookAhead(
    jobs::JobReader& reader, const std::string& owner, int32_t priority,
    const std::function<bool(const std::string& owner)>& may_read);

}  // namespace mpsd::planner

#endif  // MPSD_SERVER_PLANNER_QUEUE_OUTLOOK_H_
