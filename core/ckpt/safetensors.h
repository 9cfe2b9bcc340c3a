// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CKPT_SAFETENSORS_H_
#define MPSD_CORE_CKPT_SAFETENSORS_H_

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/file.h"
#include "core/ckpt/header.h"

// The safetensors format (huggingface/safetensors, README "Format"): eight
// bytes of header length, a JSON header, the tensors' bytes.
namespace mpsd::tensorfile {

// One .safetensors file, memory-mapped. Thread-safe.
class SafetensorsFile {
 public:
  // InvalidArgument for any other file: see ParseHeader.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::filesystem::path& path);

  const std::map<std::string, TensorEntry>& entries() const {
    return header_.entries;
  }
  const std::map<std::string, std::string>& metadata() const {
    return header_.metadata;
  }

  // A copy of `name` on `device` in `dtype`. The tensor's file pages are
  // dropped after the copy, so that reading a whole file never takes its size
  // twice. NotFound; Unimplemented for a tensor stored in a dtype that mpsd
  // does not read.
  absl::StatusOr<at::Tensor> Load(const std::string& name, at::Device device,
                                  at::ScalarType dtype) const;
  // The bytes of `name` in the mapped file; empty for an unknown name.
  std::string_view Bytes(const std::string& name) const;
  // Drops the pages that Bytes brought into memory.
  void DropBytes(const std::string& name) const;
  // A copy on the CPU in the stored dtype.
  absl::StatusOr<at::Tensor> Load(const std::string& name) const;

 private:
  SafetensorsFile() = default;

  std::filesystem::path path_;
  std::unique_ptr<base::MappedFile> file_;
  Header header_;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Writes `tensors` in the given order, copying one at a time to the CPU, and
// fsyncs. Does not replace the file atomically: write below a StagedFolder.
absl::Status WriteSafetensors(
    const std::filesystem::path& path, const NamedTensors& tensors,
    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace mpsd::tensorfile

#endif  // MPSD_CORE_CKPT_SAFETENSORS_H_
