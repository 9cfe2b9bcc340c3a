// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_MODEL_FILES_H_
#define MPSD_CLIENT_MODEL_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/local_file.h"

namespace mpsd::client {

// A model's folder of this machine that can be sent.
struct LocalModel {
  std::vector<LocalFile> files;  // without their hashes
  // What else lies in the folder, and mpsd never reads.
  std::vector<std::string> left_out;
};

// Looks at the folder as mpsd will (spec::ReadModelFolder), so that nothing is
// sent that it would refuse. Links are followed: a snapshot of a Hugging Face
// cache consists of them. InvalidArgument and NotFound name the file and what
// to do.
absl::StatusOr<LocalModel> ReadLocalModel(const std::filesystem::path& folder);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_MODEL_FILES_H_
