// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_INPUTS_H_
#define MPSD_CLIENT_INPUTS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/hash_files.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// A job.json that is ready to be sent.
struct PreparedJob {
  std::string spec_json;
  std::vector<LocalFile> files;
  std::vector<std::string> warnings;  // for fields that change nothing
};

// The request that submits the job, without the caller's options.
v1::SubmitRequest RequestOf(const PreparedJob& job);

// Reads and validates job.json and hashes the files that it names, relative to
// its own folder: data files, the files of the adapter's folder and, for an
// image job, those below a data folder and those that its JSON Lines name. A
// relative `model` that is a folder here is made absolute in spec_json. An
// absolute path that does not exist on this machine is taken as a path of the
// daemon's machine, and so is every absolute path in a row.
//
// InvalidArgument, or NotFound for a missing file, names the line or field, and
// what was expected.
absl::StatusOr<PreparedJob> PrepareJob(const std::filesystem::path& job_file,
                                       const HashOptions& hashing = {});

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_INPUTS_H_
