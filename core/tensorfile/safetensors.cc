// SPDX-License-Identifier: Apache-2.0
#include "core/tensorfile/safetensors.h"

#include <ATen/ATen.h>

#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/work_count.h"
#include "core/tensorfile/safetensors_writer.h"
#include "nlohmann/json.hpp"

namespace mpsd::tensorfile {
namespace {

using nlohmann::json;

constexpr size_t kMaxHeader = 100'000'000;  // bytes, as the reference reader

struct DtypeName {
  std::string_view name;
  at::ScalarType dtype;
};
constexpr DtypeName kDtypes[] = {
    {"F64", at::kDouble},    {"F32", at::kFloat}, {"F16", at::kHalf},
    {"BF16", at::kBFloat16}, {"I64", at::kLong},  {"I32", at::kInt},
    {"I16", at::kShort},     {"I8", at::kChar},   {"U8", at::kByte},
    {"BOOL", at::kBool},
};

std::optional<at::ScalarType> DtypeOf(std::string_view name) {
  for (const DtypeName& d : kDtypes) {
    if (d.name == name) return d.dtype;
  }
  return std::nullopt;
}

absl::Status Bad(const std::filesystem::path& path, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": not a safetensors file: ", what));
}

bool IsSize(const json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <=
             static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

// The entry of one header value, or what is wrong with it.
absl::StatusOr<TensorEntry> ParseEntry(const json& value, size_t data_begin,
                                       size_t file_size) {
  auto bad = [](const char* why) { return absl::InvalidArgumentError(why); };
  if (!value.is_object() || !value.contains("dtype") ||
      !value["dtype"].is_string() || !value.contains("shape") ||
      !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2) {
    return bad("needs dtype, shape and data_offsets");
  }
  TensorEntry entry;
  auto dtype = DtypeOf(value["dtype"].get<std::string>());
  if (!dtype) return bad("unknown dtype");
  entry.dtype = *dtype;
  size_t elements = 1;
  for (const json& dim : value["shape"]) {
    if (!IsSize(dim)) return bad("a dimension is no size");
    const size_t n = dim.get<size_t>();
    if (n != 0 && elements > std::numeric_limits<int64_t>::max() / n) {
      return bad("too many elements");
    }
    elements *= n;
    entry.shape.push_back(static_cast<int64_t>(n));
  }
  const json& offsets = value["data_offsets"];
  if (!IsSize(offsets[0]) || !IsSize(offsets[1])) return bad("bad offsets");
  const size_t begin = offsets[0].get<size_t>();
  const size_t end = offsets[1].get<size_t>();
  if (begin > end || end > file_size - data_begin) {
    return bad("its bytes leave the file (is the file cut?)");
  }
  entry.offset = data_begin + begin;
  entry.bytes = end - begin;
  if (entry.bytes / at::elementSize(entry.dtype) != elements ||
      entry.bytes % at::elementSize(entry.dtype) != 0) {
    return bad("its bytes do not match its shape");
  }
  return entry;
}

}  // namespace

std::string SafetensorsName(at::ScalarType dtype) {
  for (const DtypeName& d : kDtypes) {
    if (d.dtype == dtype) return std::string(d.name);
  }
  return "";
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::filesystem::path& path) {
  auto file = base::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->path_ = path;
  result->file_ = *std::move(file);
  if (absl::Status s = result->ParseHeader(); !s.ok()) return s;
  return result;
}

absl::Status SafetensorsFile::ParseHeader() {
  const std::string_view bytes = file_->bytes();
  if (bytes.size() < 8) return Bad(path_, "shorter than its header length");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (length > kMaxHeader || length > bytes.size() - 8) {
    return Bad(path_, "its header leaves the file (is the file cut?)");
  }
  const json header = json::parse(bytes.substr(8, length), nullptr, false);
  if (!header.is_object()) return Bad(path_, "its header is not JSON");
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, text] : value.items()) {
        if (text.is_string()) metadata_[key] = text.get<std::string>();
      }
      continue;
    }
    auto entry = ParseEntry(value, 8 + length, bytes.size());
    if (!entry.ok()) {
      return Bad(path_, absl::StrCat("tensor \"", name,
                                     "\": ", entry.status().message()));
    }
    entries_[name] = *std::move(entry);
  }
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> SafetensorsFile::Load(const std::string& name,
                                                 at::Device device,
                                                 at::ScalarType dtype) const {
  auto it = entries_.find(name);
  if (it == entries_.end()) {
    return absl::NotFoundError(
        absl::StrCat(path_.string(), ": no tensor \"", name, "\""));
  }
  const TensorEntry& entry = it->second;
  at::Tensor target =
      at::empty(entry.shape, at::TensorOptions().dtype(dtype).device(device));
  if (entry.bytes > 0) {
    void* data = const_cast<char*>(file_->bytes().data()) + entry.offset;
    at::Tensor view;
    at::Tensor aligned;
    if (reinterpret_cast<uintptr_t>(data) % at::elementSize(entry.dtype) != 0) {
      aligned = at::empty(entry.shape, entry.dtype);
      std::memcpy(aligned.data_ptr(), data, entry.bytes);
      view = aligned;
    } else {
      view = at::from_blob(data, entry.shape, entry.dtype);
    }
    target.copy_(view);
    file_->DropPages(entry.offset, entry.bytes);
  }
  base::CountWork();
  return target;
}

absl::StatusOr<at::Tensor> SafetensorsFile::Load(
    const std::string& name) const {
  auto it = entries_.find(name);
  const at::ScalarType dtype =
      it == entries_.end() ? at::kFloat : it->second.dtype;
  return Load(name, at::kCPU, dtype);
}

absl::Status WriteSafetensors(
    const std::filesystem::path& path, const NamedTensors& tensors,
    const std::map<std::string, std::string>& metadata) {
  std::vector<PlannedTensor> plan;
  for (const auto& [name, tensor] : tensors) {
    plan.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  auto writer = SafetensorsWriter::Create(path, std::move(plan), metadata);
  if (!writer.ok()) return writer.status();
  for (const auto& [name, tensor] : tensors) {
    if (absl::Status s = (*writer)->Append(tensor); !s.ok()) return s;
  }
  return (*writer)->Finish();
}

}  // namespace mpsd::tensorfile
