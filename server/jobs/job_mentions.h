// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_MENTIONS_H_
#define MPSD_SERVER_JOBS_JOB_MENTIONS_H_

#include <set>
#include <string>
#include <string_view>

#include "server/jobs/job.h"

namespace mpsd::jobs {

// The ids of the jobs that a spec mentions: those in whose folders its paths
// lie (".../jobs/ID/..."), and those of "job:ID". A path in the folder of
// another daemon's job counts too: an id too many keeps a job from removal, and
// nothing else.
std::set<std::string> JobMentions(std::string_view spec_json);

// The jobs whose folders or ends the job needs.
std::set<std::string> JobsNeededBy(const Job& job);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_MENTIONS_H_
