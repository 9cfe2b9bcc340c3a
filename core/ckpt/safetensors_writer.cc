// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/safetensors_writer.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"
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
  writer->fd_ =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (writer->fd_ < 0) return base::ErrnoStatus(errno, path.string());
  const std::string head = HeaderText(writer->plan_, metadata);
  RETURN_IF_ERROR(writer->Write(head.data(), head.size()));
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ >= 0) close(fd_);
}

absl::Status SafetensorsWriter::Append(const at::Tensor& tensor) {
  if (next_ == plan_.size() || tensor.scalar_type() != plan_[next_].dtype ||
      tensor.sizes() != at::IntArrayRef(plan_[next_].shape)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_.string(), ": tensor ", next_, " is not the one planned"));
  }
  ++next_;
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  return Write(static_cast<const char*>(host.const_data_ptr()), host.nbytes());
}

absl::Status SafetensorsWriter::Write(const char* data, size_t size) {
  base::Check(fd_ >= 0, "the file is open");
  while (size > 0) {
    // Written in parts, each of which counts as work, so that watchers of
    // WorkCount see a slow disk make progress.
    const ssize_t n = write(fd_, data, std::min<size_t>(size, 16 << 20));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path_.string());
    base::CountWork();
    data += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() {
  if (next_ != plan_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_.string(), ": ", plan_.size() - next_,
                     " tensors of the plan are missing"));
  }
  return fsync(fd_) == 0 ? absl::OkStatus()
                         : base::ErrnoStatus(errno, path_.string());
}

}  // namespace mpsd::tensorfile
