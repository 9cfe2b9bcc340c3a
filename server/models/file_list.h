// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MODELS_FILE_LIST_H_
#define MPSD_SERVER_MODELS_FILE_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mpsd::models {

// A file of a model that is pushed, and the blob that has its bytes.
struct ModelFile {
  std::string path;  // relative to the model's folder
  std::string sha256;
  int64_t size_bytes = 0;

  bool operator==(const ModelFile&) const = default;
};

// Checks what a client lists: files that models consist of
// (spec::IsModelFile), config.json among them, each once, whatever the file
// system thinks of upper and lower case. InvalidArgument, beginning with the
// field's name.
absl::Status CheckFileList(const std::vector<ModelFile>& files);

// The SHA-256 of the list, whatever its order.
std::string RevisionOfFiles(std::vector<ModelFile> files);

}  // namespace mpsd::models

#endif  // MPSD_SERVER_MODELS_FILE_LIST_H_
