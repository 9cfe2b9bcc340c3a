// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_CKPT_HEADER_H_
#define MPSD_CORE_CKPT_HEADER_H_

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

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

}  // namespace mpsd::tensorfile

#endif  // MPSD_CORE_CKPT_HEADER_H_
