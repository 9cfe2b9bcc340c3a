// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/sharded_writer.h"

#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace mpsd::tensorfile {
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
    ASSIGN_OR_RETURN(
        auto file,
        SafetensorsWriter::Create(folder_ / FileName(shard_), shards_[shard_]));
    file_ = std::move(file);
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
