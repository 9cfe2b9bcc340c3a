// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors_writer.h"
#include "nlohmann/json.hpp"

namespace mpsd::tensorfile {
namespace {

using nlohmann::json;

// Bytes; the reference reader's limit.
constexpr size_t kMaxHeader = 100'000'000;
// Nested containers; the reference reader's limit.
constexpr int kMaxDepth = 127;
constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxSize = std::numeric_limits<int64_t>::max();

struct DtypeName {
  std::string_view name;
  size_t bits;
  at::ScalarType dtype;
};
constexpr at::ScalarType kUnread = at::ScalarType::Undefined;
constexpr DtypeName kDtypes[] = {
    {"F64", 64, at::kDouble},    {"F32", 32, at::kFloat},
    {"F16", 16, at::kHalf},      {"BF16", 16, at::kBFloat16},
    {"I64", 64, at::kLong},      {"I32", 32, at::kInt},
    {"I16", 16, at::kShort},     {"I8", 8, at::kChar},
    {"U8", 8, at::kByte},        {"BOOL", 8, at::kBool},
    {"U16", 16, kUnread},        {"U32", 32, kUnread},
    {"U64", 64, kUnread},        {"C64", 64, kUnread},
    {"F8_E4M3", 8, kUnread},     {"F8_E5M2", 8, kUnread},
    {"F8_E8M0", 8, kUnread},     {"F8_E4M3FNUZ", 8, kUnread},
    {"F8_E5M2FNUZ", 8, kUnread}, {"F6_E2M3", 6, kUnread},
    {"F6_E3M2", 6, kUnread},     {"F4", 4, kUnread},
};

const DtypeName* FindDtype(std::string_view name) {
  for (const DtypeName& d : kDtypes) {
    if (d.name == name) return &d;
  }
  return nullptr;
}

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

bool IsSize(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= kMaxSize;
}

// Parses the header's JSON and also checks what a finished tree no longer
// shows: duplicate names and the depth.
absl::StatusOr<json> ParseJson(std::string_view text) {
  std::vector<std::set<std::string>> open;  // the names of each container
  std::string twice;
  bool deep = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    const bool starts = event == json::parse_event_t::object_start ||
                        event == json::parse_event_t::array_start;
    deep = deep || (starts && depth >= kMaxDepth);
    const auto level = static_cast<size_t>(depth);
    if (event == json::parse_event_t::key && depth <= 2) {
      open.resize(std::max(open.size(), level + 1));
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open[level].insert(name).second && twice.empty()) twice = name;
    } else if (event == json::parse_event_t::object_start &&
               level + 1 < open.size()) {
      open[level + 1].clear();
    }
    return true;
  };
  // The JSON parser would skip a byte order mark and stop at a zero byte; the
  // reference reader rejects both.
  if (text.starts_with("\xEF\xBB\xBF") ||
      text.find('\0') != std::string_view::npos) {
    return Bad("its header is not JSON");
  }
  json header = json::parse(text, watch, /*allow_exceptions=*/false);
  if (!header.is_object()) return Bad("its header is not JSON");
  if (deep) return Bad("its header is nested too deep");
  if (!twice.empty()) {
    return Bad(absl::StrCat("\"", twice, "\" appears twice"));
  }
  return header;
}

// Reads the dimensions into `shape` and returns the number of elements.
absl::StatusOr<uint64_t> ReadShape(const json& dims,
                                   std::vector<int64_t>& shape) {
  uint64_t elements = 1;
  for (const json& dim : dims) {
    if (!IsSize(dim)) return Bad("a dimension is not a size");
    const uint64_t n = dim.get<uint64_t>();
    if (n != 0 && elements > kMaxSize / n) return Bad("too many elements");
    elements *= n;
    shape.push_back(static_cast<int64_t>(n));
  }
  return elements;
}

// The entry of one header value, with its offset counted from the data's first
// byte, or the fault.
absl::StatusOr<TensorEntry> ParseEntry(const json& value) {
  if (!value.is_object() || !value.contains("dtype") ||
      !value["dtype"].is_string() || !value.contains("shape") ||
      !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2) {
    return Bad("needs dtype, shape and data_offsets");
  }
  TensorEntry entry;
  entry.dtype_name = value["dtype"].get<std::string>();
  const DtypeName* dtype = FindDtype(entry.dtype_name);
  entry.dtype = dtype == nullptr ? kUnread : dtype->dtype;
  ASSIGN_OR_RETURN(const auto elements, ReadShape(value["shape"], entry.shape));
  const json& offsets = value["data_offsets"];
  if (!IsSize(offsets[0]) || !IsSize(offsets[1])) return Bad("bad offsets");
  entry.offset = offsets[0].get<size_t>();
  const size_t end = offsets[1].get<size_t>();
  if (entry.offset > end) return Bad("its bytes end before they begin");
  entry.bytes = end - entry.offset;
  if (dtype == nullptr) return entry;
  if (elements > kMaxSize / dtype->bits) return Bad("too many elements");
  const uint64_t bits = elements * dtype->bits;
  if (bits % 8 != 0 || entry.bytes != bits / 8) {
    return Bad("its bytes do not match its shape");
  }
  return entry;
}

// Checks that each tensor begins where the last one ends, and that the last
// ends with the file.
absl::Status CheckCover(const std::map<std::string, TensorEntry>& entries,
                        size_t data_bytes) {
  // By name if two are at the same position.
  std::vector<std::tuple<size_t, size_t, std::string_view>> order;
  for (const auto& [name, entry] : entries) {
    order.emplace_back(entry.offset, entry.offset + entry.bytes, name);
  }
  std::sort(order.begin(), order.end());
  size_t end = 0;
  for (const auto& [begin, next, name] : order) {
    if (begin != end) {
      return Bad(absl::StrCat("tensor \"", std::string(name),
                              "\": its bytes begin at ", begin,
                              ", those before them end at ", end));
    }
    end = next;
  }
  if (end > data_bytes) {
    return Bad(absl::StrCat("its tensors take ", end, " bytes, and it has ",
                            data_bytes, " of them (is the file cut?)"));
  }
  if (end < data_bytes) {
    return Bad(absl::StrCat("the last ", data_bytes - end,
                            " of its bytes belong to no tensor"));
  }
  return absl::OkStatus();
}

absl::Status ReadMetadata(const json& value,
                          std::map<std::string, std::string>& metadata) {
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_object()) return Bad("its __metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return Bad(
          absl::StrCat("\"", key, "\" of its __metadata__ is not a string"));
    }
    metadata[key] = text.get<std::string>();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Header> ParseHeader(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) return Bad("shorter than its header length");
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (length > kMaxHeader || length > bytes.size() - kLengthBytes) {
    return Bad("its header leaves the file (is the file cut?)");
  }
  ASSIGN_OR_RETURN(const auto root,
                   ParseJson(bytes.substr(kLengthBytes, length)));
  const size_t data_begin = kLengthBytes + length;
  Header header;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      RETURN_IF_ERROR(ReadMetadata(value, header.metadata));
      continue;
    }
    auto entry = ParseEntry(value);
    if (!entry.ok()) {
      return Bad(
          absl::StrCat("tensor \"", name, "\": ", entry.status().message()));
    }
    header.entries[name] = *std::move(entry);
  }
  RETURN_IF_ERROR(CheckCover(header.entries, bytes.size() - data_begin));
  for (auto& [name, entry] : header.entries) entry.offset += data_begin;
  return header;
}

std::string SafetensorsName(at::ScalarType dtype) {
  for (const DtypeName& d : kDtypes) {
    if (d.dtype == dtype && dtype != kUnread) return std::string(d.name);
  }
  return "";
}

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

namespace fs = std::filesystem;
namespace {

// The shard names of an index, each once.
absl::StatusOr<std::set<std::string>> ReadIndex(const fs::path& path) {
  ASSIGN_OR_RETURN(auto text, base::ReadFile(path));
  const auto index = nlohmann::json::parse(text, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") ||
      !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": expected an object with weight_map"));
  }
  std::set<std::string> shards;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string() ||
        fs::path(file.get<std::string>()).filename().string() !=
            file.get<std::string>()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path.string(), ": weight_map[\"", name, "\"] is not a file name"));
    }
    shards.insert(file.get<std::string>());
  }
  return shards;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Weights>> Weights::Open(const fs::path& folder) {
  std::unique_ptr<Weights> weights(new Weights);
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(single)) {
    RETURN_IF_ERROR(weights->AddFile(single));
    return weights;
  }
  if (!fs::exists(index)) {
    return absl::NotFoundError(absl::StrCat(
        folder.string(), ": has no model.safetensors and no ",
        "model.safetensors.index.json; if the model has only .bin files, ",
        "convert it once with Transformers' save_pretrained"));
  }
  ASSIGN_OR_RETURN(auto shards, ReadIndex(index));
  for (const std::string& shard : shards) {
    RETURN_IF_ERROR(weights->AddFile(folder / shard));
  }
  return weights;
}

absl::Status Weights::AddFile(const fs::path& path) {
  ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  for (const auto& [name, entry] : file->entries()) {
    by_name_[name] = file.get();
  }
  files_.push_back(std::move(file));
  paths_.push_back(path);
  return absl::OkStatus();
}

bool Weights::Contains(const std::string& name) const {
  return by_name_.contains(name);
}

const TensorEntry* Weights::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &it->second->entries().at(name);
}

absl::StatusOr<at::Tensor> Weights::Load(const std::string& name,
                                         at::IntArrayRef shape,
                                         at::Device device,
                                         at::ScalarType dtype) const {
  auto it = by_name_.find(name);
  if (it == by_name_.end()) {
    return absl::NotFoundError(
        absl::StrCat("the model has no weight \"", name, "\""));
  }
  const auto& stored = it->second->entries().at(name).shape;
  if (at::IntArrayRef(stored) != shape) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weight \"", name, "\" has shape [", absl::StrJoin(stored, ", "),
        "], config.json asks for [", absl::StrJoin(shape, ", "), "]"));
  }
  return it->second->Load(name, device, dtype);
}

bool Weights::SameBytes(const std::string& name,
                        const std::string& other) const {
  const TensorEntry* a = Find(name);
  const TensorEntry* b = Find(other);
  if (a == nullptr || b == nullptr || a->dtype_name != b->dtype_name ||
      a->shape != b->shape) {
    return false;
  }
  const SafetensorsFile& first = *by_name_.at(name);
  const SafetensorsFile& second = *by_name_.at(other);
  const bool same = first.Bytes(name) == second.Bytes(other);
  // The comparison read both tensors' pages from the files.
  first.DropBytes(name);
  second.DropBytes(other);
  return same;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : by_name_) names.push_back(name);
  return names;
}

}  // namespace mpsd::tensorfile
