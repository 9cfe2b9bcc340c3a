// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CKPT_WEIGHTS_H_
#define MPSD_CORE_CKPT_WEIGHTS_H_

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ckpt/safetensors.h"

namespace mpsd::tensorfile {

// The weights of a Hugging Face model folder: model.safetensors, or the shards
// that model.safetensors.index.json names. Thread-safe.
class Weights {
 public:
  // NotFound if the folder has neither (naming the files it looked for);
  // InvalidArgument for a broken shard or index.
  static absl::StatusOr<std::unique_ptr<Weights>> Open(
      const std::filesystem::path& folder);

  bool Contains(const std::string& name) const;
  // Null for an unknown weight.
  const TensorEntry* Find(const std::string& name) const;
  // Like SafetensorsFile::Load. InvalidArgument if the shape is not `shape`.
  absl::StatusOr<at::Tensor> Load(const std::string& name,
                                  at::IntArrayRef shape, at::Device device,
                                  at::ScalarType dtype) const;
  // Whether both weights exist, have the same dtype and shape, and are equal
  // byte by byte.
  bool SameBytes(const std::string& name, const std::string& other) const;
  std::vector<std::string> names() const;
  // The files read, for hashing.
  const std::vector<std::filesystem::path>& files() const { return paths_; }

 private:
  Weights() = default;
  absl::Status AddFile(const std::filesystem::path& path);

  std::vector<std::filesystem::path> paths_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> by_name_;
};

}  // namespace mpsd::tensorfile

#endif  // MPSD_CORE_CKPT_WEIGHTS_H_
