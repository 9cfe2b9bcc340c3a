// SPDX-License-Identifier: Apache-2.0
#include "core/tensorfile/safetensors.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/core/scratch_folder.h"

namespace mpsd::tensorfile {
namespace {

using testing::HasSubstr;

std::string PathOf(const std::string& name) {
  static const std::filesystem::path folder =
      testing_support::FreshFolder("safetensors");
  return (folder / name).string();
}

// A file of header text `json` and `data`, length prefix included.
std::string FileOf(const std::string& json, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(json.size() >> (8 * i)));
  }
  return bytes + json + data;
}

TEST(SafetensorsTest, RoundTripKeepsBitsShapesAndMetadata) {
  const NamedTensors tensors = {
      {"f32", at::randn({3, 5})},
      {"bf16", at::randn({7}).to(at::kBFloat16)},
      {"i64", at::arange(4)},
      {"scalar", at::scalar_tensor(2.5)},
      {"u8", at::ones({3}, at::kByte)},
      {"empty", at::empty({0, 4})},
      {"transposed", at::randn({2, 3}).t()},
      {"after_odd_bytes", at::randn({2})},
  };
  const std::string path = PathOf("round_trip");
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"format", "pt"}}).ok());
  auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
  ASSERT_EQ((*file)->entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = *(*file)->Load(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
}

TEST(SafetensorsTest, LoadsInAnotherDtype) {
  const at::Tensor tensor = at::randn({16}).to(at::kBFloat16);
  ASSERT_TRUE(WriteSafetensors(PathOf("dtype"), {{"x", tensor}}).ok());
  auto file = *SafetensorsFile::Open(PathOf("dtype"));
  EXPECT_TRUE(
      at::equal(*file->Load("x", at::kCPU, at::kFloat), tensor.to(at::kFloat)));
  EXPECT_EQ(file->Load("y").status().code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsTest, WhatIsNoSuchFileIsNamed) {
  const std::string path = PathOf("bad");
  std::ofstream(path, std::ios::binary) << FileOf("{}", "stray");
  const absl::Status status = SafetensorsFile::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path + ": not a safetensors file: the last 5 of its"));
}

// A file of mlx beside tensors that can be read.
TEST(SafetensorsTest, ADtypeIsTheFaultOfWhoLoadsIt) {
  const std::string path = PathOf("u32");
  std::ofstream(path, std::ios::binary)
      << FileOf(R"({"q":{"dtype":"U32","shape":[1],"data_offsets":[0,4]},)"
                R"("x":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                std::string("\1\2\3\4\5\6", 6));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(
      at::equal(*(*file)->Load("x"), at::tensor({5, 6}, at::dtype(at::kByte))));
  for (const auto& loaded :
       {(*file)->Load("q"), (*file)->Load("q", at::kCPU, at::kFloat)}) {
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(loaded.status().message()),
                HasSubstr("tensor \"q\" is stored as U32"));
  }
}

// What a copy reads from begins at a multiple of four bytes, as Metal's copies
// want it, and of the dtype's own width.
TEST(SafetensorsTest, TensorsAtOddPlacesAreAlignedForTheCopy) {
  const NamedTensors tensors = {{"byte", at::ones({1}, at::kByte)},
                                {"f32", at::randn({3})},
                                {"half", at::randn({1}).to(at::kHalf)},
                                {"bf16", at::randn({5}).to(at::kBFloat16)},
                                {"f64", at::randn({2}, at::kDouble)}};
  ASSERT_TRUE(WriteSafetensors(PathOf("odd"), tensors).ok());
  const auto file = *SafetensorsFile::Open(PathOf("odd"));
  EXPECT_NE(file->entries().at("f32").offset % 4, 0u);
  EXPECT_NE(file->entries().at("bf16").offset % 4, 0u);
  static std::vector<uintptr_t>* sources;
  std::vector<uintptr_t> found;
  sources = &found;
  at::RecordFunctionCallback seen(
      [](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(fn.name()) == "aten::copy_") {
          sources->push_back(reinterpret_cast<uintptr_t>(
              fn.inputs()[1].toTensor().const_data_ptr()));
        }
        return nullptr;
      });
  const auto handle = at::addThreadLocalCallback(
      seen.needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  std::vector<at::Tensor> loaded;
  for (const auto& [name, tensor] : tensors) {
    loaded.push_back(*file->Load(name));
  }
  at::removeCallback(handle);
  ASSERT_EQ(found.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(found[i] % 4, 0u) << tensors[i].first;
    EXPECT_TRUE(at::equal(loaded[i], tensors[i].second)) << tensors[i].first;
  }
}

TEST(SafetensorsTest, RefusesADtypeTheFormatLacks) {
  EXPECT_EQ(WriteSafetensors(PathOf("complex"),
                             {{"x", at::zeros({1}, at::kComplexFloat)}})
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mpsd::tensorfile
