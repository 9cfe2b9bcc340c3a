// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/descriptor.h"

namespace mpsd::tensorfile {

// A tensor that will be written to a file.
struct PlannedTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;

  int64_t bytes() const;
};

// Writes a .safetensors file tensor by tensor: names, dtypes and shapes are
// known before the first tensor exists, so that only one at a time is in
// memory.
class SafetensorsWriter {
 public:
  // InvalidArgument for a dtype that the format lacks. A file of that name is
  // overwritten, not replaced atomically: write below a StagedFolder.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::filesystem::path& path, std::vector<PlannedTensor> plan,
      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // Writes the next tensor of the plan, on any device. InvalidArgument if its
  // dtype or shape differs from the plan.
  absl::Status Append(const at::Tensor& tensor);

  // Fsyncs. FailedPrecondition before the plan's last tensor.
  absl::Status Finish();

 private:
  SafetensorsWriter(std::filesystem::path path, std::vector<PlannedTensor> plan)
      : path_(std::move(path)), plan_(std::move(plan)) {}

  const std::filesystem::path path_;
  const std::vector<PlannedTensor> plan_;
  size_t next_ = 0;
  base::UniqueFd fd_;
};

// Writes the weights of a model folder, tensor by tensor, in files named as
// Transformers' save_pretrained does: model.safetensors if all tensors fit into
// one, else model-00001-of-0000N.safetensors … with
// model.safetensors.index.json.
class ShardedWriter {
 public:
  // No file is larger than max_shard_bytes, unless a single tensor is.
  static absl::StatusOr<std::unique_ptr<ShardedWriter>> Create(
      std::filesystem::path folder, const std::vector<PlannedTensor>& plan,
      int64_t max_shard_bytes);

  // Like the methods of SafetensorsWriter.
  absl::Status Append(const at::Tensor& tensor);
  absl::Status Finish();

  int64_t shard_count() const { return static_cast<int64_t>(shards_.size()); }

 private:
  ShardedWriter() = default;
  std::string FileName(size_t shard) const;
  absl::Status CloseFile();

  std::filesystem::path folder_;
  std::vector<std::vector<PlannedTensor>> shards_;
  std::unique_ptr<SafetensorsWriter> file_;  // the file of shard_
  size_t shard_ = 0;
  size_t left_ = 0;  // tensors that file_ still expects
};

// The number of bytes in "5GB", "200MiB" or "4096", in Transformers'
// max_shard_size syntax. InvalidArgument for other texts.
absl::StatusOr<int64_t> ParseByteSize(const std::string& text);

}  // namespace mpsd::tensorfile
