// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/safetensors_writer.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "nlohmann/json.hpp"

namespace mpsd::tensorfile {
namespace {

std::string HeaderText(const std::vector<PlannedTensor>& plan,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const PlannedTensor& tensor : plan) {
    const int64_t end = offset + tensor.bytes();
    header[tensor.name] = {{"dtype", SafetensorsName(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // data begins aligned
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(text.size() >> (8 * i)));
  }
  return bytes + text;
}

}  // namespace

int64_t PlannedTensor::bytes() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements * static_cast<int64_t>(at::elementSize(dtype));
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::filesystem::path& path, std::vector<PlannedTensor> plan,
    const std::map<std::string, std::string>& metadata) {
  for (const PlannedTensor& tensor : plan) {
    if (SafetensorsName(tensor.dtype).empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", tensor.name, "\" has a dtype safetensors lacks"));
    }
  }
  std::unique_ptr<SafetensorsWriter> writer(
      new SafetensorsWriter(path, std::move(plan)));
  writer->fd_.reset(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!writer->fd_.valid()) return base::ErrnoStatus(errno, path.string());
  const std::string head = HeaderText(writer->plan_, metadata);
  RETURN_IF_ERROR(base::WriteAll(writer->fd_.get(), head, path));
  return writer;
}

absl::Status SafetensorsWriter::Append(const at::Tensor& tensor) {
  if (next_ == plan_.size() || tensor.scalar_type() != plan_[next_].dtype ||
      tensor.sizes() != at::IntArrayRef(plan_[next_].shape)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_.string(), ": tensor ", next_, " is not the one planned"));
  }
  ++next_;
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  return base::WriteAll(
      fd_.get(),
      {static_cast<const char*>(host.const_data_ptr()), host.nbytes()}, path_);
}

absl::Status SafetensorsWriter::Finish() {
  if (next_ != plan_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_.string(), ": ", plan_.size() - next_,
                     " tensors of the plan are missing"));
  }
  return fsync(fd_.get()) == 0 ? absl::OkStatus()
                               : base::ErrnoStatus(errno, path_.string());
}

namespace {

constexpr char kIndex[] = "model.safetensors.index.json";

}  // namespace

absl::StatusOr<std::unique_ptr<ShardedWriter>> ShardedWriter::Create(
    std::filesystem::path folder, const std::vector<PlannedTensor>& plan,
    int64_t max_shard_bytes) {
  std::unique_ptr<ShardedWriter> writer(new ShardedWriter);
  writer->folder_ = std::move(folder);
  writer->shards_.emplace_back();
  int64_t size = 0;
  for (const PlannedTensor& tensor : plan) {
    // A shard gets tensors in order until the next one does not fit, as in
    // save_pretrained. Planned ahead, because the file names need the number of
    // shards before the first tensor is written.
    if (size + tensor.bytes() > max_shard_bytes && size > 0) {
      writer->shards_.emplace_back();
      size = 0;
    }
    writer->shards_.back().push_back(tensor);
    size += tensor.bytes();
  }
  return writer;
}

std::string ShardedWriter::FileName(size_t shard) const {
  if (shards_.size() == 1) return "model.safetensors";
  return absl::StrFormat("model-%05d-of-%05d.safetensors", shard + 1,
                         shards_.size());
}

absl::Status ShardedWriter::CloseFile() {
  if (file_ == nullptr) return absl::OkStatus();
  absl::Status s = file_->Finish();
  file_.reset();
  ++shard_;
  return s;
}

absl::Status ShardedWriter::Append(const at::Tensor& tensor) {
  if (file_ != nullptr && left_ == 0) {
    RETURN_IF_ERROR(CloseFile());
  }
  if (file_ == nullptr) {
    if (shard_ == shards_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder_.string(), ": more tensors than planned"));
    }
    ASSIGN_OR_RETURN(file_, SafetensorsWriter::Create(
                                folder_ / FileName(shard_), shards_[shard_]));
    left_ = shards_[shard_].size();
  }
  --left_;
  return file_->Append(tensor);
}

absl::Status ShardedWriter::Finish() {
  RETURN_IF_ERROR(CloseFile());
  if (shard_ != shards_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder_.string(), ": tensors of the plan are missing"));
  }
  if (shards_.size() == 1) return absl::OkStatus();
  std::map<std::string, std::string> files;
  int64_t bytes = 0, parameters = 0;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    for (const PlannedTensor& tensor : shards_[shard]) {
      files[tensor.name] = FileName(shard);
      bytes += tensor.bytes();
      parameters +=
          tensor.bytes() / static_cast<int64_t>(at::elementSize(tensor.dtype));
    }
  }
  const nlohmann::ordered_json index = {
      {"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}},
      {"weight_map", files}};
  return base::WriteFileAtomic(folder_ / kIndex, index.dump(2) + "\n");
}

absl::StatusOr<int64_t> ParseByteSize(const std::string& text) {
  constexpr std::pair<const char*, int64_t> kUnits[] = {
      {"KiB", 1 << 10},  {"MiB", 1 << 20},      {"GiB", 1 << 30}, {"KB", 1'000},
      {"MB", 1'000'000}, {"GB", 1'000'000'000}, {"", 1},
  };
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    int64_t number = 0;
    const std::string digits =
        text.substr(0, text.size() - std::string(unit).size());
    if (absl::SimpleAtoi(digits, &number) && number > 0 &&
        number < (int64_t{1} << 62) / factor) {
      return number * factor;
    }
    break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" is not a size; expected for example \"5GB\" or \"500MiB\""));
}

}  // namespace mpsd::tensorfile
