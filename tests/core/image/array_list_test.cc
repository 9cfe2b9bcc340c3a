// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/image_files.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using testing_support::FreshFolder;

at::Tensor Bytes(at::IntArrayRef shape) { return at::zeros(shape, at::kByte); }

TEST(ListArrays, TakesEveryLayout) {
  const fs::path folder = FreshFolder("arrays_good");
  const at::Tensor grey = at::arange(40, at::kByte).view({2, 4, 5});
  const at::Tensor colour = at::arange(120, at::kByte).view({2, 4, 5, 3});
  for (const at::Tensor& images :
       {grey, grey.unsqueeze(3), grey.unsqueeze(1), colour,
        colour.permute({0, 3, 1, 2}).contiguous()}) {
    const std::string path = WriteArrays(folder / "a.safetensors", images,
                                         at::tensor({7, 9}, at::kLong));
    auto list = ListImages({path}, {});
    ASSERT_TRUE(list.ok()) << list.status();
    ASSERT_EQ(list->entries.size(), 2u);
    auto image = ReadImage(list->entries[1]);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->height, 4);
    EXPECT_EQ(image->width, 5);
    EXPECT_EQ(image->pixels[7], (image->channels == 3 ? 60 : 20) + 7);
    EXPECT_EQ(list->entries[1].label.kind, data::LabelValue::Kind::kInteger);
    EXPECT_EQ(list->entries[1].label.text, "9");
  }
}

TEST(ListArrays, TakesImagesAloneWhereNoLabelIsNeeded) {
  const std::string path = WriteArrays(
      FreshFolder("arrays_alone") / "a.safetensors", Bytes({3, 4, 5}), {});
  EXPECT_EQ(ErrorOf(path), path + ": no tensor `labels`; expected int64 [N]");
  ListOptions options;
  options.labels_needed = false;
  options.max_samples = 2;
  auto list = ListImages({path}, options);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->entries.size(), 2u);
}

TEST(ListArrays, SaysWhatIsBad) {
  const at::Tensor labels = at::zeros({2}, at::kLong);
  const std::string layouts =
      ": images: expected uint8 [N, H, W], [N, H, W, C] or [N, C, H, W] with 1 "
      "or 3 channels, found ";
  struct Bad {
    at::Tensor images, labels;
    std::string message;
  };
  const fs::path folder = FreshFolder("arrays_bad");
  for (const Bad& bad : {
           Bad{{},
               labels,
               ": no tensor `images`; expected uint8 [N, H, W] or [N, H, W, "
               "C]"},
           Bad{at::zeros({2, 4, 5}), labels, layouts + "Float [2, 4, 5]"},
           Bad{Bytes({2, 4}), labels, layouts + "Byte [2, 4]"},
           Bad{Bytes({2, 4, 5, 4}), labels, layouts + "Byte [2, 4, 5, 4]"},
           Bad{Bytes({0, 4, 5}), at::zeros({0}, at::kLong),
               ": images: no pixels in Byte [0, 4, 5]"},
           Bad{Bytes({3, 4, 5}), labels,
               ": labels: expected int64 [3], one for each image, found Long "
               "[2]"},
           Bad{Bytes({2, 4, 5}), at::zeros({2}),
               ": labels: expected int64 [2], one for each image, found Float "
               "[2]"},
       }) {
    const std::string path =
        WriteArrays(folder / "a.safetensors", bad.images, bad.labels);
    EXPECT_EQ(ErrorOf(path), path + bad.message);
  }
}

TEST(ListArrays, RefusesWhatIsNoSafetensors) {
  const std::string path =
      WriteFile(FreshFolder("arrays_text") / "a.safetensors", "hello, world");
  EXPECT_THAT(ErrorOf(path), testing::HasSubstr(path));
}

}  // namespace
}  // namespace mpsd::image
