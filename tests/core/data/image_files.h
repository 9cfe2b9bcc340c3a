// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/ckpt/safetensors.h"
#include "core/data/decode.h"
#include "core/data/image.h"
#include "core/data/image_list.h"

namespace mpsd::image {

// tests/golden/images.safetensors; tests/golden/images.py says what is in it.
inline const tensorfile::SafetensorsFile& GoldenFile() {
  static const auto file = tensorfile::SafetensorsFile::Open(
      std::filesystem::path(MPSD_TEST_SOURCE_DIR) /
      "tests/golden/images.safetensors");
  return **file;
}

inline at::Tensor Golden(const std::string& name) {
  return GoldenFile().Load(name).value();
}

// The rest of the names that begin with `prefix`.
inline std::vector<std::string> GoldenNames(const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : GoldenFile().entries()) {
    if (name.rfind(prefix, 0) == 0) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

inline std::string GoldenBytes(const std::string& name) {
  const at::Tensor bytes = Golden(name);
  return {static_cast<const char*>(bytes.data_ptr()),
          static_cast<size_t>(bytes.numel())};
}

// Of uint8 [H, W, 3].
inline Image GoldenImage(const std::string& name) {
  const at::Tensor t = Golden(name).contiguous();
  const auto* data = t.const_data_ptr<uint8_t>();
  return {t.size(0), t.size(1), t.size(2), {data, data + t.numel()}};
}

// The largest difference of two images; of other sizes, 256.
inline int Difference(const Image& a, const Image& b) {
  if (a.height != b.height || a.width != b.width || a.channels != b.channels) {
    return 256;
  }
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return largest;
}

inline std::string WriteFile(const std::filesystem::path& path,
                             const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

// A file of tests/golden/images.safetensors: "photo" is a JPEG, "rgb8" a PNG.
inline std::string WriteImage(const std::filesystem::path& path,
                              const std::string& golden = "rgb8") {
  return WriteFile(path, GoldenBytes("file." + golden));
}

inline std::string WriteArrays(const std::filesystem::path& path,
                               const at::Tensor& images,
                               const at::Tensor& labels) {
  tensorfile::NamedTensors tensors;
  if (images.defined()) tensors.emplace_back("images", images);
  if (labels.defined()) tensors.emplace_back("labels", labels);
  EXPECT_TRUE(tensorfile::WriteSafetensors(path, tensors).ok());
  return path.string();
}

inline std::string ErrorOf(const std::string& path,
                           const ListOptions& options = {}) {
  auto list = ListImages({path}, options);
  if (list.ok()) return "none";
  return std::string(list.status().message());
}

}  // namespace mpsd::image
