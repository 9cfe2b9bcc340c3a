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
};

// Reads and validates job.json and hashes the data files and the files of the
// adapter folder it names, relative to its own folder. A relative `model` that
// is a folder here is made absolute in spec_json. An absolute path that is not
// on this machine is left for the daemon's.
//
// InvalidArgument, or NotFound for a missing file, names line or field, and
// what was expected.
absl::StatusOr<PreparedJob> PrepareJob(const std::filesystem::path& job_file);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_INPUTS_H_
