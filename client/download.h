// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_DOWNLOAD_H_
#define MPSD_CLIENT_DOWNLOAD_H_

#include <filesystem>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/console.h"

namespace mpsd::client {

// Whether a file can be written at `path`, as far as that can be told before
// hours of measuring: its folder is one and may be written to, and what bears
// its name already is a regular file, which an AtomicFile replaces. Errors name
// `option`. OK for an empty path: nothing is to be written.
absl::Status CheckOutputFile(const std::string& option,
                             const std::filesystem::path& path);

// Fetches the file `name` of the output of job `id` to `path`, which appears
// whole, with the announced size and hash, or not at all; what is there is
// replaced. Prints the error, if any: kNotFound where the output lacks the file
// (`missing` says what to do).
ExitCode FetchOutputFile(const Console& console, const std::string& id,
                         const std::string& name,
                         const std::filesystem::path& path,
                         const std::string& missing);

// The small text files of a job's run, by name: run.json; confusion_matrix.json
// and the first lines of predictions.jsonl of a job that made them. A file of
// more than 1 MiB is left out, and predictions end after 64 KiB. What the
// daemon does not have is missing; another failure is reported on console.err
// and leaves the files out that come after it.
std::map<std::string, std::string> ReadRunFiles(const Console& console,
                                                const std::string& job_id);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_DOWNLOAD_H_
