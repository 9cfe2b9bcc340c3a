// SPDX-License-Identifier: Apache-2.0
#include "core/data/image.h"

#include <numeric>
#include <random>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/text.h"
#include "core/data/decode.h"
#include "core/data/image_list.h"
#include "core/data/image_set.h"
#include "core/data/in_order.h"
#include "core/data/processor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/data/image_files.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::image {
namespace {

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
  EXPECT_GE(names.size(), 58u);
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
            absl::InvalidArgumentError("a/b.png: neither PNG, JPEG nor WebP"));
  for (const auto& [bytes, format] :
       std::vector<std::pair<std::string, std::string>>{
           {"GIF89a", "GIF"},
           {"BM1234", "BMP"},
           {std::string("II*\0\10", 5), "TIFF"},
           {std::string("\0\0\0\x18"
                        "ftypheic\0",
                        13),
            "HEIC"},
           {std::string("\0\0\0\x1c"
                        "ftypavif\0",
                        13),
            "AVIF"}}) {
    EXPECT_THAT(DecodeImage(bytes, "a.jpg"),
                Fails(absl::StatusCode::kInvalidArgument,
                      testing::StartsWith("a.jpg: a " + format +
                                          " image; expected PNG, JPEG or WebP: "
                                          "convert it, ")));
  }
  std::string animated = GoldenBytes("file.turned_webp");
  animated[20] |= 2;  // VP8X's flag
  EXPECT_THAT(ReadImageSize(animated, "a.webp"),
              Fails(absl::StatusCode::kInvalidArgument,
                    "an animated WebP; save one of its frames"));
  EXPECT_EQ(ReadImageSize("", "c.jpg").status(),
            absl::InvalidArgumentError(
                "c.jpg: the file is empty, expected PNG, JPEG or WebP"));
}

// However a file is cut or altered, there is an image or an error.
TEST(DecodeImage, SurvivesEveryCutAndFlippedByte) {
  for (const char* name :
       {"interlaced", "palette4", "progressive", "jpeg_cmyk", "restarts",
        "grey16", "turned_both", "turned_webp", "webp_lossless_clear"}) {
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

// Bytes that are anything but sound: cut, altered, and of random numbers. The
// memory is exactly as long as the text, for tools that watch its bounds.
TEST(ReadOrientation, ReadsNothingAfterTheEnd) {
  std::mt19937 random(7);
  for (const char* name : {"turned_exif6", "turned_exif_second", "turned_split",
                           "turned_webp", "turned_png_late"}) {
    const std::string bytes = GoldenBytes(std::string("file.") + name);
    for (int i = 0; i < 20'000; ++i) {
      std::vector<char> altered(bytes.begin(), bytes.end());
      for (int n = random() % 6; n > 0; --n) {
        // The first bytes are what this reads; pixels come after them.
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

Augmentation Draw(const spec::AugmentationSpec& spec, int64_t height,
                  int64_t width, int64_t sample, int64_t epoch = 0,
                  uint64_t seed = 42) {
  data::Random random = RandomOfSample(seed, epoch, sample);
  return DrawAugmentation(spec, height, width, random);
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
  const auto folder = FreshFolder("processor_none");
  auto processor = Processor::Read(folder, Model(20, 1)).value();
  const at::Tensor pixels = Pixels(processor, Image{1, 1, 3, {255, 255, 255}});
  EXPECT_TRUE(at::equal(pixels, at::ones({1, 20, 20})));
  EXPECT_EQ(processor.config().image_mean, std::vector<double>{0.5});
}

TEST(Processor, ReadsTheConfigOfAFolder) {
  const auto folder = FreshFolder("processor_some");
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

constexpr int64_t kSize = 12;

Processor SmallProcessor(int64_t channels = 3) {
  spec::VisionConfig model;
  model.image_size = kSize;
  model.num_channels = channels;
  ProcessorConfig config;
  config.height = config.width = kSize;
  return Processor::Make(config, model, "p.json").value();
}

data::ClassLabels CatsAndDogs() {
  data::ClassLabels class_labels;
  class_labels.names = {"cat", "dog"};
  class_labels.ids = {{"cat", 0}, {"dog", 1}};
  return class_labels;
}

fs::path CatAndDogFolder(const std::string& name) {
  const fs::path folder = FreshFolder(name);
  WriteImage(folder / "cat/1.jpg", "photo");
  WriteImage(folder / "cat/2.png", "rgba8");
  WriteImage(folder / "dog/1.png", "interlaced");
  return folder;
}

std::unique_ptr<ImageSet> Open(const std::string& path,
                               const ImageSetOptions& options = {}) {
  auto list = ListImages({path}, {}).value();
  const data::ClassLabels class_labels = CatsAndDogs();
  return *ImageSet::Make(std::move(list), &class_labels, SmallProcessor(),
                         options);
}

data::Batch Collated(const ImageSet& set,
                     const std::vector<std::vector<int64_t>>& rows,
                     const data::Collation& collation = {}) {
  return set.Collate(rows, collation).value();
}

at::Tensor Normalized(const Processor& processor, const Image& image) {
  at::Tensor pixels = at::empty({3, kSize, kSize});
  processor.Normalize(image, pixels.mutable_data_ptr<float>());
  return pixels;
}

TEST(ImageSet, MakesBatchesOfWhatTheProcessorMakes) {
  const auto set = Open(CatAndDogFolder("set_plain"));
  EXPECT_EQ(set->size(), 3);
  EXPECT_EQ(set->length(2), 1);
  EXPECT_EQ(set->stats().rows, 3);
  const data::Batch batch = Collated(*set, {{2}, {0}});
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.tokens, 2);
  EXPECT_EQ(batch.length, 1);
  EXPECT_EQ(batch.loss_weight, 2);
  EXPECT_THAT(batch.samples, ElementsAre(2, 0));
  EXPECT_THAT(batch.classes, ElementsAre(1, 0));
  EXPECT_THAT(batch.pixels.sizes(), ElementsAre(2, 3, kSize, kSize));
  auto photo = SmallProcessor().Fit(GoldenImage("rgb.photo"), "x");
  EXPECT_TRUE(at::equal(batch.pixels[1], Normalized(SmallProcessor(), *photo)));
}

TEST(ImageSet, CutsAndMirrorsTrainingImages) {
  const auto set = Open(CatAndDogFolder("set_train"));
  const Image photo = GoldenImage("rgb.photo");
  bool flipped = false, straight = false;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    const data::Collation collation{
        .training = true, .seed = 5, .epoch = epoch};
    data::Random random = RandomOfSample(5, epoch, 0);
    const Augmentation drawn =
        DrawAugmentation({}, photo.height, photo.width, random);
    Image want =
        Resize(Crop(photo, drawn.crop), kSize, kSize, Filter::kBilinear);
    if (drawn.flip) want = FlipHorizontally(want);
    (drawn.flip ? flipped : straight) = true;
    EXPECT_TRUE(at::equal(Collated(*set, {{0}}, collation).pixels[0],
                          Normalized(SmallProcessor(), want)));
  }
  EXPECT_TRUE(flipped && straight);
}

TEST(ImageSet, GivesTheSameWithoutACacheAndInAnyOrder) {
  const fs::path folder = CatAndDogFolder("set_cache");
  ImageSetOptions no_cache;
  no_cache.cache_bytes = 0;
  const auto cached = Open(folder), plain = Open(folder, no_cache);
  for (const bool training : {false, true, false}) {
    const data::Collation collation{.training = training, .epoch = 3};
    const data::Batch once = Collated(*cached, {{0}, {1}, {2}}, collation);
    EXPECT_TRUE(at::equal(Collated(*cached, {{0}, {1}, {2}}, collation).pixels,
                          once.pixels));
    for (int64_t i : {0, 1, 2}) {
      EXPECT_TRUE(at::equal(Collated(*plain, {{i}}, collation).pixels[0],
                            once.pixels[i]));
    }
  }
}

// 64 images of 100x100 are enough work for several threads.
TEST(ImageSet, FillsLargeBatchesAsSmallOnes) {
  const fs::path folder = FreshFolder("set_large");
  const at::Tensor images =
      at::randint(0, 256, {64, 100, 100, 3}).to(at::kByte);
  auto list = *ListImages({WriteArrays(folder / "a.safetensors", images,
                                       at::zeros({64}, at::kLong))},
                          {});
  auto set = ImageSet::Make(list, nullptr, SmallProcessor(), {}).value();
  std::vector<std::vector<int64_t>> rows;
  for (int64_t i = 0; i < 64; ++i) rows.push_back({i});
  const data::Batch all = Collated(*set, rows);
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(at::equal(all.pixels[i], Collated(*set, {rows[i]}).pixels[0]));
  }
}

TEST(ImageSet, RefusesAnInvalidLabel) {
  const fs::path folder = CatAndDogFolder("set_unknown");
  const std::string path = WriteImage(folder / "horse/1.png");
  auto list = ListImages({folder}, {}).value();
  const data::ClassLabels class_labels = CatsAndDogs();
  EXPECT_THAT(ImageSet::Make(list, &class_labels, SmallProcessor(), {}),
              Fails(absl::StatusCode::kInvalidArgument,
                    testing::StartsWith(path + ": label: ")));
}

TEST(ImageSet, NamesTheImageThatCannotBeDecoded) {
  const fs::path folder = CatAndDogFolder("set_damaged");
  const std::string photo = GoldenBytes("file.photo");
  const std::string path = WriteFile(folder / "dog/2.jpg", photo);
  const auto set = Open(folder);
  WriteFile(path, photo.substr(0, photo.size() - 100));  // meanwhile
  EXPECT_TRUE(set->Collate({{0}, {1}}, {}).ok());
  EXPECT_EQ(set->Collate({{0}, {3}}, {}).status(),
            absl::InvalidArgumentError(
                path + ": a damaged JPEG: the file is cut short"));
}

TEST(ListImages, JoinsSetsOfEveryKind) {
  const fs::path folder = FreshFolder("list_all");
  WriteImage(folder / "set/cat/1.png");
  const std::string rows = WriteFile(
      folder / "rows.jsonl", R"({"image": "set/cat/1.png", "label": "dog"})");
  const std::string arrays = WriteArrays(
      folder / "a.safetensors", at::zeros({2, 4, 5}, at::kByte), at::arange(2));
  auto list = ListImages({folder / "set", rows, arrays}, {}).value();
  std::vector<std::string> labels, places;
  const auto place = PlacesOf(list);
  for (size_t i = 0; i < list.entries.size(); ++i) {
    labels.push_back(LabelValues(list)[i].text);
    places.push_back(place(i));
  }
  EXPECT_THAT(labels, testing::ElementsAre("cat", "dog", "0", "1"));
  EXPECT_THAT(places, testing::ElementsAre((folder / "set/cat/1.png").string(),
                                           rows + ":1", arrays + "[0]",
                                           arrays + "[1]"));
  EXPECT_EQ(list.hash.size(), 64u);
  EXPECT_EQ(list.entries[0].width, 13);
  EXPECT_EQ(list.entries[3].width, 5);
}

TEST(ListImages, HashesNamesAndContents) {
  const auto hash = [](const char* set, const char* name, const char* golden) {
    const fs::path folder = FreshFolder(set);
    WriteImage(folder / name, golden);
    return ListImages({folder}, {}).value().hash;
  };
  const std::string first = hash("h1", "cat/1.png", "rgb8");
  EXPECT_EQ(first, hash("h2", "cat/1.png", "rgb8"));
  EXPECT_NE(first, hash("h3", "dog/1.png", "rgb8"));
  EXPECT_NE(first, hash("h4", "cat/1.png", "rgb16"));
}

TEST(ListImages, TheNumberOfThreadsChangesNothing) {
  const fs::path folder = FreshFolder("threads");
  base::Sha256 hash;
  for (int i = 100; i < 160; ++i) {
    const std::string name = base::Cat("cat/", i, ".png");
    const std::string golden = i % 3 == 0 ? "rgb8" : "rgb16";
    WriteImage(folder / name, golden);
    const auto bytes = base::ReadFile(folder / name);
    hash.Update(base::Cat(name, "\n", base::Sha256Hex(*bytes), "\n"));
  }
  hash.Update("\n");
  const std::string expected = hash.FinishHex();
  std::vector<std::string> errors;
  for (const int threads : {1, 7}) {
    data::SetWorkThreads(threads);
    WriteFile(folder / "cat/125.png", "no image");
    errors.push_back(ErrorOf(folder));
    WriteImage(folder / "cat/125.png", "rgb16");
    EXPECT_EQ(ListImages({folder}, {}).value().hash, expected) << threads;
  }
  data::SetWorkThreads(0);
  EXPECT_EQ(errors[0], errors[1]);
}

TEST(ListImages, SaysWhichPathThereIsNot) {
  EXPECT_TRUE(absl::IsNotFound(ListImages({"/nowhere/images"}, {}).status()));
  EXPECT_THAT(ErrorOf("/nowhere/images"),
              testing::HasSubstr("/nowhere/images"));
}

TEST(ListImages, StopsAtFiveFaults) {
  const fs::path folder = FreshFolder("list_faults");
  for (int i = 0; i < 9; ++i) {
    WriteFile(folder / "cat" / std::to_string(i), "no image");
  }
  const std::string error = ErrorOf(folder);
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 5);
  EXPECT_THAT(error, testing::EndsWith("(reading stopped at 5 bad rows)"));
}

// "cat 1.png", … of the entries.
std::vector<std::string> Labelled(const fs::path& folder,
                                  const ListOptions& options = {}) {
  const auto list = ListImages({folder}, options).value();
  std::vector<std::string> found;
  for (const Entry& e : list.entries) {
    found.push_back(e.label.text + " " + e.file.filename().string());
  }
  return found;
}

TEST(ListFolder, TakesAFolderForEachClass) {
  const fs::path folder = FreshFolder("folder_classes");
  for (const char* name : {"dog/b.png", "dog/a.png", "dog/deep/c.png",
                           "cafe\u0301/1.webp", "1.5/x.png", "007/y.png"}) {
    WriteImage(folder / name);
  }
  WriteFile(folder / "dog/Thumbs.db", "x");
  WriteFile(folder / "__MACOSX/dog/._a.png", "x");
  WriteFile(folder / "dog/.DS_Store", "x");
  WriteFile(folder / ".git/config", "x");
  WriteFile(folder / "LICENSE.txt", "x");
  EXPECT_THAT(Labelled(folder),
              ElementsAre("007 y.png", "1.5 x.png", "caf\u00e9 1.webp",
                          "dog a.png", "dog b.png", "dog c.png"));
  auto list = ListImages({folder}, {});
  EXPECT_EQ(list->entries[0].label.kind, data::LabelValue::Kind::kWord);
  EXPECT_EQ(list->entries[0].name, "007/y.png");
}

TEST(ListFolder, RefusesPartsOfADataSetAsClasses) {
  const fs::path folder = FreshFolder("folder_parts");
  WriteImage(folder / "train/cat/1.png");
  WriteImage(folder / "Val/cat/1.png");
  const std::string expected =
      "Val is a part of a data set, not a class; set dataset.train to its "
      "folder of training images, " +
      (folder / "train").string() +
      ", and dataset.eval to the other part's; if it is a class, list the "
      "images in JSON Lines with \"image\" and \"label\"";
  EXPECT_THAT(ErrorOf(folder), testing::EndsWith(expected));
  WriteImage(folder / "Car/1.png");
  EXPECT_THAT(ErrorOf(folder), testing::EndsWith(expected));
  fs::remove_all(folder / "Val");
  EXPECT_THAT(Labelled(folder), ElementsAre("Car 1.png", "train 1.png"));
}

TEST(ListFolder, TakesTheFirstOfEachClassInTurn) {
  const fs::path folder = FreshFolder("folder_first");
  for (const char* name :
       {"a/1.png", "a/2.png", "a/3.png", "b/1.png", "c/1.png", "c/2.png"}) {
    WriteImage(folder / name);
  }
  ListOptions options;
  options.max_samples = 5;
  EXPECT_THAT(
      Labelled(folder, options),
      ElementsAre("a 1.png", "a 2.png", "b 1.png", "c 1.png", "c 2.png"));
  options.max_samples = 2;
  EXPECT_THAT(Labelled(folder, options), ElementsAre("a 1.png", "b 1.png"));
  options.max_samples = 100;
  EXPECT_EQ(Labelled(folder, options).size(), 6u);
}

TEST(ListFolder, TakesLooseImagesWhereNoLabelIsNeeded) {
  const fs::path folder = FreshFolder("folder_loose");
  WriteImage(folder / "b.png");
  WriteImage(folder / "a.jpg", "photo");
  EXPECT_EQ(ErrorOf(folder), (folder / "a.jpg").string() +
                                 ": an image outside the class folders of " +
                                 folder.string());
  ListOptions options;
  options.labels_needed = false;
  EXPECT_THAT(Labelled(folder, options), ElementsAre(" a.jpg", " b.png"));
}

TEST(ListFolder, SaysWhatIsBad) {
  const std::string png = GoldenBytes("file.rgb8");
  const std::string jpeg = GoldenBytes("file.photo");
  const std::string webp = GoldenBytes("file.webp");
  // After its first marker, a segment with a thumbnail, which has an end.
  std::string thumbnail = jpeg;
  thumbnail.insert(2,
                   std::string("\xff\xe1\0\x0c", 4) + "Exif\xff\xd8  \xff\xd9");
  struct Bad {
    const char* file;
    std::string bytes;
    std::string message;  // after the file's or folder's path
  };
  for (const Bad& bad : {
           Bad{"cat/notes.png", "hello", "neither PNG, JPEG nor WebP"},
           Bad{"cat/empty.png", "",
               "the file is empty, expected PNG, JPEG or WebP"},
           Bad{"cat/1.png", png.substr(0, 20),
               "a damaged PNG: the file is cut short"},
           Bad{"cat/1.jpg", jpeg.substr(0, 30),
               "a damaged JPEG: JPEG datastream contains no image"},
           Bad{"cat/2.png", png.substr(0, png.size() - 20),
               "damaged: the file is cut short"},
           Bad{"cat/2.jpg", jpeg.substr(0, jpeg.size() - 9),
               "damaged: the file is cut short"},
           Bad{"cat/3.jpg", thumbnail.substr(0, thumbnail.size() - 9),
               "damaged: the file is cut short"},
           Bad{"cat/2.webp", webp.substr(0, webp.size() - 9),
               "damaged: the file is cut short"},
       }) {
    const fs::path folder = FreshFolder("folder_bad");
    WriteFile(folder / "dog/notes.txt", "no image, and left out");
    WriteImage(folder / "dog/1.png");
    const std::string path = WriteFile(folder / bad.file, bad.bytes);
    EXPECT_EQ(ErrorOf(folder), path + ": " + bad.message);
  }
}

TEST(ListFolder, RefusesEmptyFolders) {
  const fs::path folder = FreshFolder("folder_empty");
  EXPECT_EQ(ErrorOf(folder),
            folder.string() +
                ": no images; expected a folder with a folder for each class");
  WriteImage(folder / "cat/1.png");
  fs::create_directories(folder / "dog/deep");
  EXPECT_EQ(ErrorOf(folder),
            (folder / "dog").string() + ": a class folder without images");
}

// Not even the names of files beyond the roots are reported.
TEST(ListFolder, FollowsNoLinkOutOfTheRoots) {
  const fs::path folder = FreshFolder("folder_roots");
  WriteImage(folder / "in/cat/1.png");
  WriteImage(folder / "in/cats/2.png");
  WriteImage(folder / "out/a-secret-name.png");
  fs::create_directory_symlink("cats", folder / "in/lynx");
  base::LimitReads(base::ReadRoots({folder / "in"}));
  EXPECT_TRUE(ListImages({folder / "in"}, {}).ok());
  fs::create_directory_symlink("../out", folder / "in/dog");
  const absl::Status status = ListImages({folder / "in"}, {}).status();
  base::LimitReads(base::ReadRoots({"/"}));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status, Says("in/dog"));
  EXPECT_THAT(status, Says(testing::Not(testing::HasSubstr("a-secret-name"))));
}

TEST(ListFolder, EndsWhereLinksGoRound) {
  const fs::path folder = FreshFolder("folder_round");
  WriteImage(folder / "cat/1.png");
  fs::create_directory_symlink(folder / "cat", folder / "cat/again");
  EXPECT_THAT(ErrorOf(folder), testing::HasSubstr("folders deep"));
}

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
    auto list = ListImages({path}, {}).value();
    ASSERT_EQ(list.entries.size(), 2u);
    auto image = ReadImage(list.entries[1]).value();
    EXPECT_EQ(image.height, 4);
    EXPECT_EQ(image.width, 5);
    EXPECT_EQ(image.pixels[7], (image.channels == 3 ? 60 : 20) + 7);
    EXPECT_EQ(list.entries[1].label.kind, data::LabelValue::Kind::kInteger);
    EXPECT_EQ(list.entries[1].label.text, "9");
  }
}

TEST(ListArrays, TakesImagesAloneWhereNoLabelIsNeeded) {
  const std::string path = WriteArrays(
      FreshFolder("arrays_alone") / "a.safetensors", Bytes({3, 4, 5}), {});
  EXPECT_EQ(ErrorOf(path), path + ": no tensor `labels`; expected int64 [N]");
  ListOptions options;
  options.labels_needed = false;
  options.max_samples = 2;
  auto list = ListImages({path}, options).value();
  EXPECT_EQ(list.entries.size(), 2u);
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

using Kind = data::LabelValue::Kind;

TEST(ListRows, ReadsPathsAndLabels) {
  const fs::path folder = FreshFolder("rows_good");
  WriteImage(folder / "images/a.png");
  const std::string b = WriteImage(folder / "b.png");
  const std::string rows = WriteFile(
      folder / "rows.jsonl",
      "\xef\xbb\xbf{\"image\": \"images/a.png\", \"label\": \"cat\"}\r\n\n"
      "{\"image\": \"" +
          b +
          "\", \"label\": 3, \"other\": 1}\n"
          "{\"image\": \"b.png\", \"label\": [\"x\", \"y\"]}");
  auto list = ListImages({rows}, {}).value();
  ASSERT_EQ(list.entries.size(), 3u);
  EXPECT_EQ(list.entries[0].label.text, "cat");
  EXPECT_EQ(list.entries[1].label.kind, Kind::kInteger);
  EXPECT_EQ(list.entries[1].place, rows + ":3");
  EXPECT_EQ(list.entries[2].label.kind, Kind::kList);
}

TEST(ListRows, ReadsTheColumnsAskedFor) {
  const fs::path folder = FreshFolder("rows_columns");
  WriteImage(folder / "a.png");
  const std::string rows =
      WriteFile(folder / "rows.jsonl",
                "{\"file\": \"a.png\", \"kind\": \"cat\", \"label\": 1}\n"
                "{\"file\": \"a.png\"}\n{broken");
  ListOptions options{"file", "kind", /*labels_needed=*/false, 2};
  auto list = ListImages({rows}, options).value();
  ASSERT_EQ(list.entries.size(), 2u);
  EXPECT_EQ(list.entries[0].label.text, "cat");
  EXPECT_EQ(list.entries[1].label.kind, Kind::kAbsent);
}

TEST(ListRows, SaysWhatIsBad) {
  const fs::path folder = FreshFolder("rows_bad");
  WriteImage(folder / "a.png");
  const std::string text = WriteFile(folder / "a.txt", "text");
  const std::string missing = (folder / "none.png").string();
  struct Bad {
    const char* row;
    std::string message;  // after "<file>:2: "
  };
  for (const Bad& bad : {
           Bad{"[1]", "expected an object, found a list"},
           Bad{R"({"label": 1})",
               "image: expected the path of an image, found nothing"},
           Bad{R"({"image": 7, "label": 1})",
               "image: expected the path of an image, found 7"},
           Bad{R"({"image": "a.png"})", "label: missing"},
           Bad{R"({"image": "a.png", "label": null})", "label: missing"},
           Bad{R"({"image": "a.txt", "label": 1})",
               text + ": neither PNG, JPEG nor WebP"},
       }) {
    const std::string rows = WriteFile(
        folder / "rows.jsonl",
        "{\"image\": \"a.png\", \"label\": 1}\n" + std::string(bad.row));
    EXPECT_EQ(ErrorOf(rows), rows + ":2: " + bad.message);
  }
  const std::string rows =
      WriteFile(folder / "rows.jsonl", R"({"image": "none.png", "label": 1})");
  EXPECT_THAT(ErrorOf(rows), testing::AllOf(testing::StartsWith(rows + ":1: "),
                                            testing::HasSubstr(missing)));
}

TEST(ListRows, RefusesAFileWithoutRows) {
  const std::string rows =
      WriteFile(FreshFolder("rows_none") / "rows.jsonl", "\n \n");
  EXPECT_EQ(ErrorOf(rows),
            rows +
                ": no rows; expected JSON Lines such as {\"image\": "
                "\"a/b.png\", \"label\": \"cat\"}");
}

using Form = ImageCache::Form;

std::shared_ptr<const Image> Of(int64_t bytes) {
  return std::make_shared<const Image>(Blank(1, bytes, 1));
}

TEST(ImageCache, TakesNoMoreThanItsBytes) {
  ImageCache cache(3, 25);
  cache.Offer(0, Form::kDecoded, Of(20));
  cache.Offer(1, Form::kDecoded, Of(6));
  cache.Offer(2, Form::kDecoded, Of(5));
  EXPECT_NE(cache.Find(0, Form::kDecoded), nullptr);
  EXPECT_EQ(cache.Find(1, Form::kDecoded), nullptr);
  EXPECT_NE(cache.Find(2, Form::kDecoded), nullptr);
  EXPECT_EQ(cache.bytes(), 25u);
}

}  // namespace

}  // namespace mpsd::image
