// SPDX-License-Identifier: Apache-2.0
#include "core/tensorfile/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace mpsd::tensorfile {
namespace {

using testing::HasSubstr;

std::string PathOf(const std::string& name) {
  return testing::TempDir() + "safetensors_test_" + name;
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

struct BadFile {
  const char* name;
  std::string bytes;
  const char* message;
};

class BadSafetensorsTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensorsTest, IsRefusedWithItsReason) {
  const std::string path = PathOf(std::string("bad_") + GetParam().name);
  std::ofstream(path, std::ios::binary) << GetParam().bytes;
  const absl::Status status = SafetensorsFile::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

std::string Entry(const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}}";
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSafetensorsTest,
    testing::Values(
        BadFile{"short", "abc", "shorter than"},
        BadFile{"cut_header", std::string("\xff\0\0\0\0\0\0\0{", 9),
                "leaves the file"},
        BadFile{"huge_header", std::string(8, '\xff') + "{}",
                "leaves the file"},
        BadFile{"not_json", FileOf("hello", ""), "not JSON"},
        BadFile{"no_fields", FileOf(R"({"x":{}})", ""), "needs dtype"},
        BadFile{"dtype", FileOf(Entry("F8", "[1]", "[0,1]"), "a"),
                "unknown dtype"},
        BadFile{"cut_data", FileOf(Entry("F32", "[2]", "[0,8]"), "abcd"),
                "is the file cut?"},
        BadFile{"shape", FileOf(Entry("F32", "[3]", "[0,8]"), "abcdefgh"),
                "do not match its shape"},
        BadFile{"negative", FileOf(Entry("U8", "[-1]", "[0,1]"), "a"),
                "no size"},
        BadFile{"reversed", FileOf(Entry("U8", "[1]", "[1,0]"), "a"),
                "leave the file"},
        BadFile{"overflow",
                FileOf(Entry("U8", "[4294967296,4294967296]", "[0,0]"), ""),
                "too many elements"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsTest, RefusesADtypeTheFormatLacks) {
  EXPECT_EQ(WriteSafetensors(PathOf("complex"),
                             {{"x", at::zeros({1}, at::kComplexFloat)}})
                .code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mpsd::tensorfile
