// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_INPUTS_H_
#define MPSD_CLIENT_INPUTS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::client {

// A file of this machine that a job needs.
struct LocalFile {
  std::string path;             // the path in job.json
  std::filesystem::path local;  // the path on this machine
  std::string sha256;
  int64_t size_bytes = 0;
};

// A job.json that is ready to be sent.
struct PreparedJob {
  std::string spec_json;
  std::vector<LocalFile> files;
  std::vector<std::string> warnings;  // for fields that change nothing
};

// Reads and validates job.json and hashes the files that it names, relative to
// its own folder: data files, the files of the adapter's folder and, of a job
// of images, those below a folder of data and those that its JSON Lines name. A
// relative `model` that is a folder here is made absolute in spec_json. An
// absolute path that does not exist on this machine is taken for a path of the
// daemon's machine, and so is every absolute path in a row.
//
// InvalidArgument, or NotFound for a missing file, names the line or field, and
// what was expected.
absl::StatusOr<PreparedJob> PrepareJob(const std::filesystem::path& job_file);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_INPUTS_H_
