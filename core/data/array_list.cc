// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/data/decode.h"
#include "core/data/list_builder.h"
#include "core/ckpt/safetensors.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using base::Cat;
using tensorfile::SafetensorsFile;
using tensorfile::TensorEntry;

std::string Describe(const TensorEntry& entry) {
  const bool known = entry.dtype != at::ScalarType::Undefined;
  return Cat(known ? at::toString(entry.dtype) : entry.dtype_name.c_str(), " [",
             absl::StrJoin(entry.shape, ", "), "]");
}

bool IsChannels(int64_t size) { return size == 1 || size == 3; }

// The fault of the images' shape; "" for [N, H, W], [N, H, W, C] and [N, C, H,
// W].
std::string ImagesFault(const TensorEntry& images) {
  const auto& shape = images.shape;
  const bool fits =
      shape.size() == 3 ||
      (shape.size() == 4 && (IsChannels(shape[3]) || IsChannels(shape[1])));
  if (images.dtype != at::kByte || !fits) {
    return Cat(
        "images: expected uint8 [N, H, W], [N, H, W, C] or [N, C, H, "
        "W] with 1 or 3 channels, found ",
        Describe(images));
  }
  for (const int64_t size : shape) {
    if (size == 0) return Cat("images: no pixels in ", Describe(images));
  }
  return "";
}

// The images as [N, H, W, C].
at::Tensor ChannelsLast(const at::Tensor& images) {
  if (images.dim() == 3) return images.unsqueeze(3);
  return IsChannels(images.size(3)) ? images
                                    : images.permute({0, 2, 3, 1}).contiguous();
}

// The fault of the labels; "" if they fit the images.
std::string LabelsFault(const TensorEntry& labels, int64_t count) {
  if (labels.dtype == at::kLong && labels.shape == std::vector{count}) {
    return "";
  }
  return Cat("labels: expected int64 [", count, "], one for each image, found ",
             Describe(labels));
}

const TensorEntry* Find(const SafetensorsFile& file, const char* name) {
  const auto it = file.entries().find(name);
  return it == file.entries().end() ? nullptr : &it->second;
}

std::string Fault(const SafetensorsFile& file, bool labels_needed) {
  const TensorEntry* images = Find(file, "images");
  const TensorEntry* labels = Find(file, "labels");
  if (images == nullptr) {
    return "no tensor `images`; expected uint8 [N, H, W] or [N, H, W, C]";
  }
  if (std::string fault = ImagesFault(*images); !fault.empty()) return fault;
  if (labels != nullptr) return LabelsFault(*labels, images->shape[0]);
  return labels_needed ? "no tensor `labels`; expected int64 [N]" : "";
}

}  // namespace

absl::Status ListArrays(const fs::path& path, ListBuilder& builder) {
  ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  if (std::string fault = Fault(*file, builder.options().labels_needed);
      !fault.empty()) {
    builder.Fault(path.string(), fault);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto hash, base::Sha256File(path));
  builder.Hash(hash);
  ASSIGN_OR_RETURN(auto images, file->Load("images"));
  at::Tensor labels;
  if (Find(*file, "labels") != nullptr) {
    ASSIGN_OR_RETURN(auto loaded, file->Load("labels"));
    labels = std::move(loaded);
  }
  const at::Tensor pixels = ChannelsLast(images);
  for (int64_t i = 0; i < pixels.size(0); ++i) {
    data::LabelValue label;
    if (labels.defined()) {
      label = {data::LabelValue::Kind::kInteger,
               std::to_string(labels.const_data_ptr<int64_t>()[i])};
    }
    builder.AddArray(Cat(path.string(), "[", i, "]"), pixels[i],
                     std::move(label));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::image
