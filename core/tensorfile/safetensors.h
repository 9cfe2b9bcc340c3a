// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TENSORFILE_SAFETENSORS_H_
#define MPSD_CORE_TENSORFILE_SAFETENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/file.h"

// The safetensors format (huggingface/safetensors, README "Format"): eight
// bytes of header length, a JSON header, the tensors' bytes.
namespace mpsd::tensorfile {

struct TensorEntry {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  size_t offset = 0;  // of the first byte, in the file
  size_t bytes = 0;
};

// One .safetensors file, memory-mapped. Thread-safe.
class SafetensorsFile {
 public:
  // InvalidArgument for what is no safetensors file: a header that is cut, is
  // not JSON, or whose offsets leave the file, overlap or do not match shapes.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(
      const std::filesystem::path& path);

  const std::map<std::string, TensorEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

  // A copy of `name` on `device` in `dtype`. Once copied its file pages are
  // dropped: reading a whole file never holds it twice. NotFound.
  absl::StatusOr<at::Tensor> Load(const std::string& name, at::Device device,
                                  at::ScalarType dtype) const;
  // On the CPU, as stored.
  absl::StatusOr<at::Tensor> Load(const std::string& name) const;

 private:
  SafetensorsFile() = default;
  absl::Status ParseHeader();

  std::filesystem::path path_;
  std::unique_ptr<base::MappedFile> file_;
  std::map<std::string, TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// "F32", "BF16" …; empty for a dtype that the format lacks.
std::string SafetensorsName(at::ScalarType dtype);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Writes `tensors` in the given order, each copied to the CPU by itself, and
// fsyncs. The file is not replaced atomically: write below a StagedFolder.
absl::Status WriteSafetensors(
    const std::filesystem::path& path, const NamedTensors& tensors,
    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace mpsd::tensorfile

#endif  // MPSD_CORE_TENSORFILE_SAFETENSORS_H_
