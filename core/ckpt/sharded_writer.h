// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CKPT_SHARDED_WRITER_H_
#define MPSD_CORE_CKPT_SHARDED_WRITER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ckpt/safetensors_writer.h"

namespace mpsd::tensorfile {

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

#endif  // MPSD_CORE_CKPT_SHARDED_WRITER_H_
