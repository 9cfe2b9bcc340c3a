// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_DATA_IMAGE_FILES_H_
#define MPSD_TESTS_CORE_DATA_IMAGE_FILES_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/data/image_list.h"
#include "tests/core/data/golden_images.h"

namespace mpsd::image {

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

#endif  // MPSD_TESTS_CORE_DATA_IMAGE_FILES_H_
