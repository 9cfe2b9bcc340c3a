// SPDX-License-Identifier: Apache-2.0
#include "core/tensorfile/safetensors_writer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/tensorfile/safetensors.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::tensorfile {
namespace {

std::filesystem::path NewFile() {
  return testing_support::FreshFolder("writer") / "x.safetensors";
}

TEST(SafetensorsWriterTest, WritesWhatIsReadBack) {
  const auto path = NewFile();
  const at::Tensor a = at::randn({2, 3}), b = at::randn({5}).to(at::kBFloat16);
  auto writer = SafetensorsWriter::Create(
      path, {{"a", at::kFloat, {2, 3}}, {"b", at::kBFloat16, {5}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(a).ok());
  ASSERT_TRUE((*writer)->Append(b).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto file = *SafetensorsFile::Open(path);
  EXPECT_TRUE(at::equal(*file->Load("a"), a));
  EXPECT_TRUE(at::equal(*file->Load("b"), b));
  EXPECT_EQ(file->metadata().at("format"), "pt");
}

TEST(SafetensorsWriterTest, TakesTheTensorsOfThePlanOnly) {
  auto writer =
      *SafetensorsWriter::Create(NewFile(), {{"a", at::kFloat, {2, 3}}});
  EXPECT_EQ(writer->Append(at::zeros({3, 2})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(writer->Append(at::zeros({2, 3}, at::kHalf)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(writer->Finish().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(writer->Append(at::zeros({2, 3})).ok());
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(writer->Append(at::zeros({2, 3})).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SafetensorsWriterTest, RefusesADtypeThatTheFormatLacks) {
  const auto writer =
      SafetensorsWriter::Create(NewFile(), {{"a", at::kComplexDouble, {1}}});
  EXPECT_EQ(writer.status().message(),
            "tensor \"a\" has a dtype safetensors lacks");
}

}  // namespace
}  // namespace mpsd::tensorfile
