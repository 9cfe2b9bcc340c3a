// SPDX-License-Identifier: Apache-2.0
#include "core/image/processor.h"

#include <fstream>

#include "gtest/gtest.h"
#include "tests/core/image/golden_images.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::image {
namespace {

spec::VisionConfig Model(int64_t image_size, int64_t channels = 3) {
  spec::VisionConfig model;
  model.image_size = image_size;
  model.num_channels = channels;
  return model;
}

at::Tensor Pixels(const Processor& processor, const Image& image) {
  auto fitted = processor.Fit(image, "x");
  EXPECT_TRUE(fitted.ok()) << fitted.status();
  const int64_t size = processor.image_size();
  at::Tensor pixels = at::empty({processor.channels(), size, size});
  processor.Normalize(*fitted, pixels.mutable_data_ptr<float>());
  return pixels;
}

TEST(Processor, GivesWhatTransformersGivesToTheLastBit) {
  const Image photo = GoldenImage("rgb.photo");
  const auto names = GoldenNames("config.");
  EXPECT_EQ(names.size(), 7u);
  for (const std::string& name : names) {
    at::Tensor want = Golden("pixels." + name).to(at::kFloat);
    auto config = ParseProcessorConfig(GoldenBytes("config." + name), name);
    ASSERT_TRUE(config.ok()) << config.status();
    auto processor = Processor::Make(*config, Model(want.size(2)), name);
    ASSERT_TRUE(processor.ok()) << processor.status();
    at::Tensor ours = Pixels(*processor, photo);
    if (name == "default") ours = ours.slice(1, 100, 104);
    EXPECT_TRUE(at::equal(ours, want))
        << name << ": " << (ours - want).abs().max().item<float>();
  }
}

TEST(Processor, TakesTheModelsSizeWithoutAConfig) {
  const auto folder = testing_support::FreshFolder("processor_none");
  auto processor = Processor::Read(folder, Model(20, 1));
  ASSERT_TRUE(processor.ok()) << processor.status();
  const at::Tensor pixels = Pixels(*processor, Image{1, 1, 3, {255, 255, 255}});
  EXPECT_TRUE(at::equal(pixels, at::ones({1, 20, 20})));
  EXPECT_EQ(processor->config().image_mean, std::vector<double>{0.5});
}

TEST(Processor, ReadsTheConfigOfAFolder) {
  const auto folder = testing_support::FreshFolder("processor_some");
  const auto path = folder / "preprocessor_config.json";
  std::ofstream(path) << R"({"size": 32, "image_mean": [0.1, 0.2, 0.3]})";
  auto processor = Processor::Read(folder, Model(32));
  ASSERT_TRUE(processor.ok()) << processor.status();
  EXPECT_EQ(processor->config().image_mean,
            (std::vector<double>{0.1, 0.2, 0.3}));
  EXPECT_EQ(Processor::Read(folder, Model(28)).status(),
            absl::InvalidArgumentError(
                path.string() + ": makes images of 32x32 (height by width), "
                                "the model's image_size is 28"));
}

TEST(Processor, RefusesNumbersOfOtherChannels) {
  ProcessorConfig config;
  config.image_std = {1, 1, 1};
  EXPECT_EQ(Processor::Make(config, Model(224, 1), "p.json").status(),
            absl::InvalidArgumentError("p.json: image_std: 3 numbers, expected "
                                       "one for each of the model's 1 "
                                       "channels"));
  EXPECT_EQ(Processor::Make(config, Model(224, 4), "p.json").status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(Processor, NamesAnImageThatComesOutAnotherSize) {
  ProcessorConfig config;
  config.shortest_edge = 8;
  auto processor = Processor::Make(config, Model(8), "p.json");
  ASSERT_TRUE(processor.ok()) << processor.status();
  EXPECT_TRUE(processor->Fit(Blank(16, 16, 3), "a.png").ok());
  EXPECT_EQ(processor->Fit(Blank(20, 16, 3), "a.png").status(),
            absl::InvalidArgumentError(
                "a.png: is 10x8 (height by width) after the preprocessor, the "
                "model takes 8x8; give preprocessor_config.json a size with "
                "height and width, or do_center_crop"));
}

}  // namespace
}  // namespace mpsd::image
