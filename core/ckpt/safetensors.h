// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
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

// The safetensors format (huggingface/safetensors, README "Format"): eight
// bytes of header length, a JSON header, the tensors' bytes.
namespace mpsd::tensorfile {

struct TensorEntry {
  // Undefined for a dtype that mpsd knows only by name ("U32", "F8_E4M3").
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  size_t offset = 0;  // of the first byte in the file
  size_t bytes = 0;
  std::string dtype_name;  // as written in the file
};

// The tensors and metadata that a safetensors file declares.
struct Header {
  std::map<std::string, TensorEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Parses the header of a whole file's bytes and checks it as the reference
// reader does (safetensors 0.8, tensor.rs): the tensors follow each other
// without gaps from the first byte of data to the last of the file, each with
// the length that its dtype and shape imply. There are two intended
// differences: an unknown dtype is an error only when that tensor is loaded,
// and a duplicate name is rejected. Errors are InvalidArgument and do not name
// the file.
absl::StatusOr<Header> ParseHeader(std::string_view bytes);

// "F32", "BF16" …; empty for a dtype that the format lacks.
std::string SafetensorsName(at::ScalarType dtype);

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
