// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/console.h"

// What a job leaves, as files: outputs, checkpoints, a report.

namespace mpsd::client {

// Whether a file can be written at `path`, as far as that can be known before
// hours of measuring: its folder exists and is writable, and an existing file
// of its name is a regular file, which an AtomicFile replaces. Errors name
// `option`. OK for an empty path: nothing is to be written.
absl::Status CheckOutputFile(const std::string& option,
                             const std::filesystem::path& path);

// Fetches the file `name` of the output of job `id` to `path`, where nothing
// may exist: it appears complete, with the announced size and hash, or not at
// all. Prints the size, or the error: kNotFound if the output lacks the file.
ExitCode FetchOutputFile(const Console& console, const std::string& id,
                         const std::string& name,
                         const std::filesystem::path& path);

// The small text files of a job's run, by name: run.json, and for a job that
// has them confusion_matrix.json and the first lines of predictions.jsonl. A
// file larger than 1 MiB is omitted, and predictions end after 64 KiB. Files
// that the daemon does not have are missing; another failure is reported on
// console.err and omits the files that follow it.
std::map<std::string, std::string> ReadRunFiles(const Console& console,
                                                const std::string& job_id);

}  // namespace mpsd::client
