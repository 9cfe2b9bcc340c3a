// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_WORKER_SURROUNDINGS_H_
#define MPSD_SERVER_WORKER_SURROUNDINGS_H_

#include <string>
#include <vector>

#include "core/host/environment.h"
#include "server/config.h"
#include "server/jobs/job_files.h"

namespace mpsd {

// The folders below which jobs may name models and data: those of the
// configuration, and the Hugging Face cache.
jobs::JobFiles::ReadFolders FoldersJobsRead(const Config& config);

// The folders that a worker may read besides its job's; empty: any folder.
std::vector<std::string> FoldersWorkersRead(const Config& config);

// This process' environment without secrets, plus the table [environment].
host::Environment WorkersEnvironment(const Config& config);

}  // namespace mpsd

#endif  // MPSD_SERVER_WORKER_SURROUNDINGS_H_
