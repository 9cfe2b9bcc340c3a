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
  std::string path;             // as job.json spells it
  std::filesystem::path local;  // where it lies
  std::string sha256;
  int64_t size_bytes = 0;
};

// job.json made ready to be sent.
struct PreparedJob {
  std::string spec_json;
  std::vector<LocalFile> files;
  std::vector<std::string> warnings;  // of fields that change nothing
};

// Reads and validates job.json and hashes what it names, relative to its own
// folder: data files, the files of the adapter's folder and, of a job of
// images, those below a folder of data and those that its JSON Lines name. A
// relative `model` that is a folder here is made absolute in spec_json. An
// absolute path that is not on this machine is left for the daemon's, and so is
// an absolute one in a row.
//
// InvalidArgument, or NotFound for a missing file, names line or field, and
// what was expected.
absl::StatusOr<PreparedJob> PrepareJob(const std::filesystem::path& job_file);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_INPUTS_H_
