// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/class_labels.h"
#include "core/data/image.h"

namespace mpsd::image {

// A readable image and its label as written.
struct Entry {
  std::string name;            // in results: "cats/1.png"; empty for an array
  std::string place;           // in errors: "cats/1.png", "rows.jsonl:3"
  std::filesystem::path file;  // empty for an array
  at::Tensor array;            // uint8 [height, width, channels] on the CPU
  int64_t height = 0, width = 0;
  data::LabelValue label;
};

// The images of one or more sets, in their order.
struct ImageList {
  std::vector<Entry> entries;
  std::string hash;  // SHA-256 over names, labels and contents, in hexadecimal
};

struct ListOptions {
  std::string image_column;            // in JSON Lines; "": "image"
  std::string label_column;            // "": "label"
  bool labels_needed = true;           // false: list images without a label too
  std::optional<int64_t> max_samples;  // the first ones
};

// Each path is one of
// - a folder with a folder per class, whose name is the label. Images are in it
//   or below it and are taken in the order of their paths. Hidden files,
//   Thumbs.db, desktop.ini, __MACOSX and files that are no images by name and
//   content (notes.txt) are ignored; any other file that is neither PNG, JPEG
//   nor WebP is an error, and so is a class without images, and folders that
//   are all splits of a data set (train, val …). Files next to the class
//   folders are ignored unless they are images, which have no label.
//   max_samples takes one image of every class in turn.
// - a file of JSON Lines, {"image": "a/b.png", "label": …}: the path is
//   relative to that file's folder. Other names are ignored.
// - a .safetensors file with `images`, uint8 [N, H, W], [N, H, W, C] or
//   [N, C, H, W] (C is 1 or 3), and `labels`, int64 [N].
// Every file is read now for its hash and its header; pixels are decoded when a
// batch needs them.
//
// NotFound and the like for `paths`; InvalidArgument "<place>: …" for faults in
// the files, at most five, one per line. No list is empty.
absl::StatusOr<ImageList> ListImages(const std::vector<std::string>& paths,
                                     const ListOptions& options);

// Whether ListImages reads `path` as JSON Lines, the only form with columns.
bool HasRows(const std::filesystem::path& path);

// The labels of a list and their locations, for data::DecideClassLabels. The
// list must outlive the result of PlacesOf.
std::vector<data::LabelValue> LabelValues(const ImageList& list);
data::LabelPlace PlacesOf(const ImageList& list);

// The pixels of an entry, with 1 or 3 channels. InvalidArgument "<place>: …"
// for a file that is damaged after its header.
absl::StatusOr<Image> ReadImage(const Entry& entry);

}  // namespace mpsd::image
