// SPDX-License-Identifier: Apache-2.0
#include "core/data/image.h"

#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "core/data/augment.h"
#include "core/data/codec.h"
#include "core/data/decode.h"
#include "core/data/orientation.h"
#include "core/data/processor.h"
#include "core/data/resample.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/data/golden_images.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::image {

namespace {

using testing_support::Fails;

// Pixels numbered from 1.
Image Numbered(int64_t height, int64_t width, int64_t channels) {
  Image image = Blank(height, width, channels);
  std::iota(image.pixels.begin(), image.pixels.end(), 1);
  return image;
}

TEST(ImageTest, CropsFlipsAndChannelsAreThoseOfPil) {
  EXPECT_EQ(Crop(Numbered(3, 4, 1), {1, 2, 2, 2}),
            (Image{2, 2, 1, {7, 8, 11, 12}}));
  EXPECT_EQ(Crop(Numbered(2, 2, 3), {1, 0, 1, 1}), (Image{1, 1, 3, {7, 8, 9}}));
  EXPECT_EQ(CenterCrop(Numbered(3, 4, 1), 2, 3),
            (Image{2, 3, 1, {1, 2, 3, 5, 6, 7}}));
  EXPECT_EQ(CenterCrop(Numbered(1, 3, 1), 4, 2),
            (Image{4, 2, 1, {0, 0, 0, 0, 1, 2, 0, 0}}));
  EXPECT_EQ(FlipHorizontally(Numbered(2, 3, 1)),
            (Image{2, 3, 1, {3, 2, 1, 6, 5, 4}}));
  EXPECT_EQ(FlipHorizontally(Numbered(1, 2, 3)),
            (Image{1, 2, 3, {4, 5, 6, 1, 2, 3}}));
  const Image colours{1, 4, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9}};
  EXPECT_EQ(ToChannels(colours, 1), (Image{1, 4, 1, {76, 150, 29, 9}}));
  EXPECT_EQ(ToChannels(Image{1, 2, 1, {4, 5}}, 3),
            (Image{1, 2, 3, {4, 4, 4, 5, 5, 5}}));
}

TEST(DecodeImage, GivesWhatPilGivesOfEveryKindOfFile) {
  const auto names = GoldenNames("file.");
  EXPECT_GE(names.size(), 60u);
  for (const std::string& name : names) {
    const std::string bytes = GoldenBytes("file." + name);
    auto image = DecodeImage(bytes, name).value();
    EXPECT_EQ(image.channels, 3);
    EXPECT_EQ(Difference(image, GoldenImage("rgb." + name)), 0) << name;
    auto size = ReadImageSize(bytes, name).value();
    EXPECT_EQ(size.height, image.height);
    EXPECT_EQ(size.width, image.width);
  }
}

TEST(DecodeImage, NamesTheFileThatIsNoImage) {
  EXPECT_EQ(DecodeImage("hello", "a/b.png").status(),
            absl::InvalidArgumentError("a/b.png: neither PNG nor JPEG"));
  EXPECT_EQ(ReadImageSize("", "c.jpg").status(),
            absl::InvalidArgumentError(
                "c.jpg: the file is empty, expected PNG or JPEG"));
}

// However a file is cut or altered, there is an image or an error.
TEST(DecodeImage, SurvivesEveryCutAndFlippedByte) {
  for (const char* name :
       {"interlaced", "palette4", "progressive", "jpeg_cmyk", "restarts",
        "grey16", "turned_both", "turned_png_xmp"}) {
    const std::string bytes = GoldenBytes(std::string("file.") + name);
    for (size_t i = 0; i < bytes.size(); ++i) {
      (void)DecodeImage(bytes.substr(0, i), name);
      std::string altered = bytes;
      altered[i] = static_cast<char>(~altered[i]);
      auto image = DecodeImage(altered, name);
      if (!image.ok()) continue;
      EXPECT_EQ(std::ssize(image->pixels), image->height * image->width * 3);
    }
  }
}

std::string Jpeg() { return GoldenBytes("file.photo"); }

TEST(DecodeJpeg, KnowsItsMarkerAndSaysWhatIsDamaged) {
  EXPECT_TRUE(IsJpeg(Jpeg()));
  EXPECT_FALSE(IsJpeg(Jpeg().substr(1)));
  const std::string cut = Jpeg().substr(0, Jpeg().size() - 200);
  EXPECT_EQ(DecodeJpeg(cut, false).error,
            "a damaged JPEG: the file is cut short");
  EXPECT_EQ(DecodeJpeg(cut, true).error, "");
  // As PIL does.
  EXPECT_EQ(DecodeJpeg(Jpeg().substr(0, Jpeg().size() - 2), false).error,
            "a damaged JPEG: the file is cut short");
  EXPECT_THAT(DecodeJpeg(Jpeg().substr(0, 100), false).error,
              testing::StartsWith("a damaged JPEG: "));
  EXPECT_EQ(DecodeJpeg("\xff\xd8\xff\xd9", true).error,
            "a damaged JPEG: JPEG datastream contains no image");
}

TEST(DecodeJpeg, RefusesABombByItsHeader) {
  std::string jpeg = Jpeg();
  const size_t frame = jpeg.find("\xff\xc0");  // then length and depth
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
  EXPECT_EQ(DecodeJpeg(jpeg, false).error,
            "an image of 65280x65280 pixels, at most 89478485 are decoded");
}

// PNG specification, annex D.
uint32_t Crc(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) {
      crc = crc & 1 ? 0xedb88320 ^ (crc >> 1) : crc >> 1;
    }
  }
  return ~crc;
}

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift);
  }
  return bytes;
}

// The header of a PNG that claims to be of this size.
std::string WithSize(std::string png, uint32_t width, uint32_t height) {
  png.replace(16, 8, BigEndian(width) + BigEndian(height));
  return png.replace(29, 4, BigEndian(Crc(png.substr(12, 17))));
}

std::string Png() { return GoldenBytes("file.rgb8"); }

TEST(DecodePng, KnowsItsSignatureAndSaysWhatIsDamaged) {
  EXPECT_TRUE(IsPng(Png()));
  EXPECT_FALSE(IsPng(Png().substr(1)));
  EXPECT_FALSE(IsPng(Png().substr(0, 7)));
  for (const size_t length : {size_t{8}, size_t{20}, Png().size() / 2}) {
    EXPECT_EQ(DecodePng(Png().substr(0, length), false).error,
              "a damaged PNG: the file is cut short");
  }
  std::string png = Png();
  png[60] ^= 1;
  EXPECT_THAT(DecodePng(png, false).error,
              testing::StartsWith("a damaged PNG: IDAT: "));
  png = Png();
  png[17] ^= 1;
  EXPECT_THAT(DecodePng(png, true).error,
              testing::StartsWith("a damaged PNG: IHDR: "));
}

TEST(DecodePng, RefusesABombByItsHeader) {
  for (const bool header_only : {true, false}) {
    EXPECT_EQ(DecodePng(WithSize(Png(), 65536, 65536), header_only).error,
              "an image of 65536x65536 pixels, at most 89478485 are decoded");
  }
  const Decoded large = DecodePng(WithSize(Png(), 9000, 9000), true);
  EXPECT_EQ(large.error, "");
  EXPECT_EQ(large.image.height, 9000);
  EXPECT_TRUE(large.image.pixels.empty());
}

// What PIL makes of these files is compared by decode_test.cc.
TEST(ReadOrientation, OfExifInEveryOrderAndOneWhereNothingIsSaid) {
  for (int i = 0; i < 10; ++i) {
    const std::string name = "file.turned_exif" + std::to_string(i);
    EXPECT_EQ(ReadOrientation(GoldenBytes(name)), i >= 1 && i <= 8 ? i : 1);
  }
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_exif_motorola")), 5);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_both")), 3);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_xmp6")), 6);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_png6")), 6);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_png_late")), 2);
  EXPECT_EQ(ReadOrientation(""), 1);
  EXPECT_EQ(ReadOrientation("\xff\xd8\xff"), 1);
  EXPECT_EQ(ReadOrientation("Exif"), 1);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.photo")), 1);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.rgb8")), 1);
}

// Bytes that are anything but sound: cut, altered, and of random numbers. The
// memory is exactly as long as the text, for tools that watch its bounds.
TEST(ReadOrientation, ReadsNothingBehindTheEnd) {
  std::mt19937 random(7);
  for (const char* name :
       {"turned_exif6", "turned_exif_second", "turned_split", "turned_png_xmp",
        "turned_png_profile", "turned_xmp_element", "turned_png_late"}) {
    const std::string bytes = GoldenBytes(std::string("file.") + name);
    for (int i = 0; i < 20'000; ++i) {
      std::vector<char> altered(bytes.begin(), bytes.end());
      for (int n = random() % 6; n > 0; --n) {
        // The first bytes are what this reads; pixels come behind them.
        const size_t at = random() % std::min<size_t>(altered.size(), 160);
        altered[at] = static_cast<char>(random() % 3 ? random() : 0xff);
      }
      altered.resize(random() % (altered.size() + 1));
      altered.shrink_to_fit();
      const int orientation = ReadOrientation({altered.data(), altered.size()});
      ASSERT_GE(orientation, 1);
      ASSERT_LE(orientation, 8);
    }
  }
}

TEST(Upright, TurnsAndMirrors) {
  // 1 2 3
  // 4 5 6
  const Image image{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(Upright(image, 0), image);
  EXPECT_EQ(Upright(image, 1), image);
  EXPECT_EQ(Upright(image, 9), image);
  EXPECT_EQ(Upright(image, 2), (Image{2, 3, 1, {3, 2, 1, 6, 5, 4}}));
  EXPECT_EQ(Upright(image, 3), (Image{2, 3, 1, {6, 5, 4, 3, 2, 1}}));
  EXPECT_EQ(Upright(image, 4), (Image{2, 3, 1, {4, 5, 6, 1, 2, 3}}));
  EXPECT_EQ(Upright(image, 5), (Image{3, 2, 1, {1, 4, 2, 5, 3, 6}}));
  EXPECT_EQ(Upright(image, 6), (Image{3, 2, 1, {4, 1, 5, 2, 6, 3}}));
  EXPECT_EQ(Upright(image, 7), (Image{3, 2, 1, {6, 3, 5, 2, 4, 1}}));
  EXPECT_EQ(Upright(image, 8), (Image{3, 2, 1, {3, 6, 2, 5, 1, 4}}));
}

TEST(Resize, GivesWhatPillowGivesToTheLastBit) {
  const Image photo = GoldenImage("rgb.photo");
  const auto names = GoldenNames("resized.");
  EXPECT_EQ(names.size(), 48u);
  for (const std::string& name : names) {
    int filter = 0, height = 0, width = 0;
    ASSERT_EQ(std::sscanf(name.c_str(), "%d.%dx%d", &filter, &height, &width),
              3);
    const Image resized =
        Resize(photo, height, width, static_cast<Filter>(filter));
    EXPECT_EQ(Difference(resized, GoldenImage("resized." + name)), 0) << name;
  }
  EXPECT_EQ(Resize(photo, photo.height, photo.width, Filter::kLanczos), photo);
}

TEST(Resize, TreatsGreyAsEachOfThreeEqualChannels) {
  const Image grey = ToChannels(GoldenImage("rgb.photo"), 1);
  for (int filter = 0; filter < 6; ++filter) {
    const Image one = Resize(grey, 17, 50, static_cast<Filter>(filter));
    const Image three =
        Resize(ToChannels(grey, 3), 17, 50, static_cast<Filter>(filter));
    EXPECT_EQ(ToChannels(one, 3), three) << filter;
  }
}

Augmentation Draw(const spec::AugmentationSpec& spec, int64_t height,
                  int64_t width, int64_t sample, int64_t epoch = 0,
                  uint64_t seed = 42) {
  data::Random random = RandomOfSample(seed, epoch, sample);
  return DrawAugmentation(spec, height, width, random);
}

TEST(DrawAugmentation, IsAFunctionOfSeedEpochAndSample) {
  const spec::AugmentationSpec spec;
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> boxes;
  for (uint64_t seed : {1, 2}) {
    for (int64_t epoch : {0, 1}) {
      for (int64_t sample : {0, 1, 2}) {
        const Box box = Draw(spec, 200, 300, sample, epoch, seed).crop;
        EXPECT_EQ(box, Draw(spec, 200, 300, sample, epoch, seed).crop);
        boxes.insert({box.top, box.left, box.height, box.width});
      }
    }
  }
  EXPECT_EQ(boxes.size(), 12u);
}

// Resuming a run made by another version must not change its images.
TEST(DrawAugmentation, KeepsItsNumbersForGoodAndLeavesOutWhatIsOff) {
  const Augmentation drawn = Draw({}, 200, 300, 7, 3);
  EXPECT_EQ(drawn.crop, (Box{52, 33, 141, 188}));
  EXPECT_TRUE(drawn.flip);
  const spec::AugmentationSpec spec;
  EXPECT_EQ(Draw(spec, 10, 1000, 0).crop, (Box{0, 493, 10, 13}));
  EXPECT_EQ(Draw(spec, 1000, 10, 0).crop, (Box{493, 0, 13, 10}));
  spec::AugmentationSpec whole;
  whole.crop_scale_min = whole.crop_scale_max = 2;
  EXPECT_EQ(Draw(whole, 30, 31, 0).crop, (Box{0, 0, 30, 31}));
  spec::AugmentationSpec off;
  off.random_resized_crop = false;
  off.horizontal_flip = 0;
  spec::AugmentationSpec always = off;
  always.horizontal_flip = 1;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Draw(off, 5, 6, i).crop, (Box{0, 0, 5, 6}));
    EXPECT_FALSE(Draw(off, 5, 6, i).flip);
    EXPECT_TRUE(Draw(always, 5, 6, i).flip);
  }
}

TEST(DrawAugmentation, CutsWhatTorchvisionWouldCut) {
  const spec::AugmentationSpec spec;
  const int64_t height = 240, width = 320;
  double area = 0, logarithm = 0, flips = 0, top = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const Augmentation drawn = Draw(spec, height, width, i);
    const Box& box = drawn.crop;
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, height);
    ASSERT_LE(box.left + box.width, width);
    const double ratio = static_cast<double>(box.width) / box.height;
    ASSERT_GT(ratio, 0.73);
    ASSERT_LT(ratio, 1.37);
    area += static_cast<double>(box.height * box.width) / (height * width);
    logarithm += std::log(ratio);
    if (box.height < height) {
      top += static_cast<double>(box.top) / (height - box.height);
    }
    flips += drawn.flip;
  }
  // Means of 200000 draws of torchvision's get_params on this size.
  EXPECT_NEAR(area / kDraws, 0.4343, 0.006);
  EXPECT_NEAR(logarithm / kDraws, 0.0307, 0.005);
  EXPECT_NEAR(top / kDraws, 0.5, 0.01);
  EXPECT_NEAR(flips / kDraws, 0.5, 0.015);
}

spec::VisionConfig Model(int64_t image_size, int64_t channels = 3) {
  spec::VisionConfig model;
  model.image_size = image_size;
  model.num_channels = channels;
  return model;
}

at::Tensor Pixels(const Processor& processor, const Image& image) {
  auto fitted = processor.Fit(image, "x").value();
  const int64_t size = processor.image_size();
  at::Tensor pixels = at::empty({processor.channels(), size, size});
  processor.Normalize(fitted, pixels.mutable_data_ptr<float>());
  return pixels;
}

TEST(Processor, GivesWhatTransformersGivesToTheLastBit) {
  const Image photo = GoldenImage("rgb.photo");
  const auto names = GoldenNames("config.");
  EXPECT_EQ(names.size(), 7u);
  for (const std::string& name : names) {
    at::Tensor want = Golden("pixels." + name).to(at::kFloat);
    auto config = *ParseProcessorConfig(GoldenBytes("config." + name), name);
    auto processor = Processor::Make(config, Model(want.size(2)), name).value();
    at::Tensor ours = Pixels(processor, photo);
    if (name == "default") ours = ours.slice(1, 100, 104);
    EXPECT_TRUE(at::equal(ours, want))
        << name << ": " << (ours - want).abs().max().item<float>();
  }
}

TEST(Processor, TakesTheModelsSizeWithoutAConfig) {
  const auto folder = testing_support::FreshFolder("processor_none");
  auto processor = Processor::Read(folder, Model(20, 1)).value();
  const at::Tensor pixels = Pixels(processor, Image{1, 1, 3, {255, 255, 255}});
  EXPECT_TRUE(at::equal(pixels, at::ones({1, 20, 20})));
  EXPECT_EQ(processor.config().image_mean, std::vector<double>{0.5});
}

TEST(Processor, ReadsTheConfigOfAFolder) {
  const auto folder = testing_support::FreshFolder("processor_some");
  const auto path = folder / "preprocessor_config.json";
  std::ofstream(path) << R"({"size": 32, "image_mean": [0.1, 0.2, 0.3]})";
  auto processor = Processor::Read(folder, Model(32)).value();
  EXPECT_EQ(processor.config().image_mean,
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
  EXPECT_TRUE(absl::IsUnimplemented(
      Processor::Make(config, Model(224, 4), "p.json").status()));
}

TEST(Processor, NamesAnImageThatComesOutAnotherSize) {
  ProcessorConfig config;
  config.shortest_edge = 8;
  auto processor = Processor::Make(config, Model(8), "p.json").value();
  EXPECT_TRUE(processor.Fit(Blank(16, 16, 3), "a.png").ok());
  EXPECT_EQ(processor.Fit(Blank(20, 16, 3), "a.png").status(),
            absl::InvalidArgumentError(
                "a.png: is 10x8 (height by width) after the preprocessor, the "
                "model takes 8x8; give preprocessor_config.json a size with "
                "height and width, or do_center_crop"));
}

ProcessorConfig Parse(const std::string& json) {
  return ParseProcessorConfig(json, "p.json").value();
}

TEST(ParseProcessorConfig,
     HasTheDefaultsOfTheVitProcessorAndTakesEveryFormOfASize) {
  EXPECT_EQ(Parse("{}"), ProcessorConfig());
  EXPECT_EQ(Parse(R"({"resample": null, "image_mean": null, "do_resize": null,
                      "size": null, "rescale_factor": null})"),
            ProcessorConfig());
  EXPECT_EQ(Parse(R"({"image_processor_type": "ViTFeatureExtractor",
                      "do_convert_rgb": true, "_valid_processor_keys": [1],
                      "do_pad": false})"),
            ProcessorConfig());
  EXPECT_EQ(Parse(R"({"size": 32})").width, 32);
  const ProcessorConfig both = Parse(R"({"size": {"height": 3, "width": 4}})");
  EXPECT_EQ(both.height, 3);
  EXPECT_EQ(both.width, 4);
  const ProcessorConfig crop = Parse(
      R"({"size": {"shortest_edge": 9}, "do_center_crop": true,
          "crop_size": 8})");
  EXPECT_EQ(crop.shortest_edge, 9);
  EXPECT_EQ(crop.crop_height, 8);
  EXPECT_EQ(crop.crop_width, 8);
}

TEST(ParseProcessorConfig, ReadsBackWhatToJsonWrites) {
  ProcessorConfig config;
  config.do_rescale = false;
  config.height = 28;
  config.resample = Filter::kBicubic;
  config.image_std = {0.25, 0.5, 0.125};
  EXPECT_EQ(Parse(ToJson(config)), config);
  config.shortest_edge = 40;
  config.height = 224;
  config.do_center_crop = true;
  config.crop_width = 30;
  EXPECT_EQ(Parse(ToJson(config)), config);
}

struct Bad {
  const char* json;
  absl::StatusCode code;
  const char* message;
};

TEST(ParseProcessorConfig, SaysWhatItCannotDo) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  for (const Bad& bad : {
           Bad{R"({"image_processor_type": "CLIPImageProcessor"})",
               kUnimplemented,
               "p.json:1: image_processor_type: the string "
               "\"CLIPImageProcessor\" is not supported; supported is "
               "ViTImageProcessor"},
           Bad{R"({"do_pad": true})", kUnimplemented,
               "p.json:1: do_pad: padding is not supported"},
           Bad{R"({"size": {"longest_edge": 5}})", kUnimplemented,
               "p.json:1: size: longest_edge is not supported; supported are "
               "height and width, and shortest_edge"},
           Bad{R"({"size": {"height": 5}})", kInvalid,
               "p.json:1: size: expected an integer, or height and width, or "
               "shortest_edge"},
           Bad{R"({"resample": 9})", kInvalid,
               "p.json:1: resample: expected an integer >= 0 and <= 5, found "
               "9"},
           Bad{R"({"image_std": [1, 0, 1]})", kInvalid,
               "p.json:1: image_std[1]: expected a number > 0, found 0"},
           Bad{"[]", kInvalid, "p.json:1: expected an object, found a list"},
       }) {
    EXPECT_THAT(ParseProcessorConfig(bad.json, "p.json"),
                Fails(bad.code, testing::StrEq(bad.message)));
  }
}

}  // namespace

}  // namespace mpsd::image
