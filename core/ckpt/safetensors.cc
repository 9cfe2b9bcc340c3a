// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"
#include "core/ckpt/safetensors_writer.h"

namespace mpsd::tensorfile {
namespace {

// Alignment of bytes copied to a device, for all dtypes: Metal requires it of a
// buffer's offset.
constexpr size_t kAlignment = 4;

absl::Status Unread(const std::filesystem::path& path, const std::string& name,
                    const TensorEntry& entry) {
  return absl::UnimplementedError(absl::StrCat(
      path.string(), ": tensor \"", name, "\" is stored as ", entry.dtype_name,
      ", which mpsd does not read; use the model in bfloat16, float16 or "
      "float32"));
}

// A view of the tensor in the mapped file, or a copy if the file's offset is
// not aligned for its dtype or for Metal.
at::Tensor InPlace(const char* data, const TensorEntry& entry) {
  const size_t alignment =
      std::max<size_t>(kAlignment, at::elementSize(entry.dtype));
  if (reinterpret_cast<uintptr_t>(data) % alignment == 0) {
    return at::from_blob(const_cast<char*>(data), entry.shape, entry.dtype);
  }
  at::Tensor aligned = at::empty(entry.shape, entry.dtype);
  std::memcpy(aligned.data_ptr(), data, entry.bytes);
  return aligned;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(auto file, base::MappedFile::Open(path));
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->path_ = path;
  result->file_ = std::move(file);
  auto header = ParseHeader(result->file_->bytes());
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(),
                     ": not a safetensors file: ", header.status().message()));
  }
  result->header_ = *std::move(header);
  return result;
}

absl::StatusOr<at::Tensor> SafetensorsFile::Load(const std::string& name,
                                                 at::Device device,
                                                 at::ScalarType dtype) const {
  auto it = entries().find(name);
  if (it == entries().end()) {
    return absl::NotFoundError(
        absl::StrCat(path_.string(), ": no tensor \"", name, "\""));
  }
  const TensorEntry& entry = it->second;
  if (entry.dtype == at::ScalarType::Undefined) {
    return Unread(path_, name, entry);
  }
  base::CheckAtMost(entry.offset + entry.bytes, file_->bytes().size(),
                    "a tensor's end and its file's");
  at::Tensor target =
      at::empty(entry.shape, at::TensorOptions().dtype(dtype).device(device));
  if (entry.bytes > 0) {
    target.copy_(InPlace(file_->bytes().data() + entry.offset, entry));
    file_->DropPages(entry.offset, entry.bytes);
  }
  base::CountWork();
  return target;
}

absl::StatusOr<at::Tensor> SafetensorsFile::Load(
    const std::string& name) const {
  auto it = entries().find(name);
  const at::ScalarType dtype =
      it == entries().end() ? at::kFloat : it->second.dtype;
  return Load(name, at::kCPU, dtype);
}

std::string_view SafetensorsFile::Bytes(const std::string& name) const {
  const auto it = entries().find(name);
  if (it == entries().end()) return {};
  return file_->bytes().substr(it->second.offset, it->second.bytes);
}

void SafetensorsFile::DropBytes(const std::string& name) const {
  const auto it = entries().find(name);
  if (it == entries().end() || it->second.bytes == 0) return;
  file_->DropPages(it->second.offset, it->second.bytes);
}

absl::Status WriteSafetensors(
    const std::filesystem::path& path, const NamedTensors& tensors,
    const std::map<std::string, std::string>& metadata) {
  std::vector<PlannedTensor> plan;
  for (const auto& [name, tensor] : tensors) {
    plan.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  ASSIGN_OR_RETURN(auto writer,
                   SafetensorsWriter::Create(path, std::move(plan), metadata));
  for (const auto& [name, tensor] : tensors) {
    RETURN_IF_ERROR(writer->Append(tensor));
  }
  return writer->Finish();
}

}  // namespace mpsd::tensorfile
