// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUN_FILES_H_
#define MPSD_CLIENT_RUN_FILES_H_

#include <map>
#include <string>

#include "client/console.h"

namespace mpsd::client {

// The small text files of a job's run, by name: run.json; confusion_matrix.json
// and the first lines of predictions.jsonl of a job that made them. A file of
// more than 1 MiB is left out, and predictions end after 64 KiB. What the
// daemon does not have is missing; another failure is reported on console.err
// and leaves the files out that come after it.
std::map<std::string, std::string> ReadRunFiles(const Console& console,
                                                const std::string& job_id);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUN_FILES_H_
