// SPDX-License-Identifier: Apache-2.0
#include "core/image/image_set.h"

#include "core/image/augment.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/image_files.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing_support::FreshFolder;

constexpr int64_t kSize = 12;

Processor SmallProcessor(int64_t channels = 3) {
  spec::VisionConfig model;
  model.image_size = kSize;
  model.num_channels = channels;
  ProcessorConfig config;
  config.height = config.width = kSize;
  auto processor = Processor::Make(config, model, "p.json");
  EXPECT_TRUE(processor.ok()) << processor.status();
  return *processor;
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
  auto list = ListImages({path}, {});
  EXPECT_TRUE(list.ok()) << list.status();
  const data::ClassLabels class_labels = CatsAndDogs();
  auto set = ImageSet::Make(*std::move(list), &class_labels, SmallProcessor(),
                            options);
  EXPECT_TRUE(set.ok()) << set.status();
  return set.ok() ? *std::move(set) : nullptr;
}

data::Batch Collated(const ImageSet& set,
                     const std::vector<std::vector<int64_t>>& rows,
                     const data::Collation& collation = {}) {
  auto batch = set.Collate(rows, collation);
  EXPECT_TRUE(batch.ok()) << batch.status();
  return batch.ok() ? *batch : data::Batch();
}

std::vector<float> Normalized(const Processor& processor, const Image& image) {
  std::vector<float> pixels(image.pixels.size());
  processor.Normalize(image, pixels.data());
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
  EXPECT_EQ(batch.channels * batch.height * batch.width, 3 * kSize * kSize);
  auto photo = SmallProcessor().Fit(GoldenImage("rgb.photo"), "x");
  const std::vector<float> second(batch.pixels.begin() + 3 * kSize * kSize,
                                  batch.pixels.end());
  EXPECT_EQ(second, Normalized(SmallProcessor(), *photo));
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
    EXPECT_EQ(Collated(*set, {{0}}, collation).pixels,
              Normalized(SmallProcessor(), want));
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
    EXPECT_EQ(Collated(*cached, {{0}, {1}, {2}}, collation).pixels,
              once.pixels);
    std::vector<float> one_by_one;
    for (int64_t i : {0, 1, 2}) {
      const data::Batch batch = Collated(*plain, {{i}}, collation);
      one_by_one.insert(one_by_one.end(), batch.pixels.begin(),
                        batch.pixels.end());
    }
    EXPECT_EQ(once.pixels, one_by_one);
  }
}

TEST(ImageSet, MirrorsWholeImagesWithoutCrops) {
  ImageSetOptions options;
  options.augmentation.random_resized_crop = false;
  options.augmentation.horizontal_flip = 1;
  const auto set = Open(CatAndDogFolder("set_mirror"), options);
  auto photo = SmallProcessor().Fit(GoldenImage("rgb.photo"), "x");
  EXPECT_EQ(Collated(*set, {{0}}, {.training = true}).pixels,
            Normalized(SmallProcessor(), FlipHorizontally(*photo)));
}

// 64 images of 100x100 are enough work for several threads.
TEST(ImageSet, FillsLargeBatchesAsSmallOnes) {
  const fs::path folder = FreshFolder("set_large");
  const at::Tensor images =
      at::randint(0, 256, {64, 100, 100, 3}).to(at::kByte);
  auto list = ListImages({WriteArrays(folder / "a.safetensors", images,
                                      at::zeros({64}, at::kLong))},
                         {});
  ASSERT_TRUE(list.ok()) << list.status();
  auto set = ImageSet::Make(*list, nullptr, SmallProcessor(), {});
  ASSERT_TRUE(set.ok()) << set.status();
  std::vector<std::vector<int64_t>> rows;
  for (int64_t i = 0; i < 64; ++i) rows.push_back({i});
  const data::Batch all = Collated(**set, rows);
  std::vector<float> one_by_one;
  for (const auto& row : rows) {
    const data::Batch batch = Collated(**set, {row});
    one_by_one.insert(one_by_one.end(), batch.pixels.begin(),
                      batch.pixels.end());
  }
  EXPECT_EQ(all.pixels, one_by_one);
}

TEST(ImageSet, HasNoClassesWithoutLabels) {
  auto list = ListImages({CatAndDogFolder("set_predict")}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  auto set = ImageSet::Make(*list, nullptr, SmallProcessor(1), {});
  ASSERT_TRUE(set.ok()) << set.status();
  const data::Batch batch = Collated(**set, {{1}});
  EXPECT_TRUE(batch.classes.empty());
  EXPECT_EQ(batch.channels, 1);
  EXPECT_EQ(std::ssize(batch.pixels), kSize * kSize);
  EXPECT_THAT((*set)->place(2), testing::EndsWith("dog/1.png"));
}

TEST(ImageSet, WeighsTheLossByClass) {
  auto list = ListImages({CatAndDogFolder("set_weights")}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  data::ClassLabels class_labels = CatsAndDogs();
  class_labels.weights = {0.25, 2};
  auto set = ImageSet::Make(*list, &class_labels, SmallProcessor(), {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(Collated(**set, {{0}, {2}, {1}}).loss_weight, 2.5);
}

TEST(ImageSet, GivesTargetsOfSeveralLabels) {
  const fs::path folder = CatAndDogFolder("set_targets");
  const std::string rows =
      WriteFile(folder / "rows.jsonl",
                "{\"image\": \"cat/1.jpg\", \"label\": [\"dog\", \"cat\"]}\n"
                "{\"image\": \"cat/1.jpg\", \"label\": [\"dog\"]}\n");
  auto list = ListImages({rows}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  data::ClassLabels class_labels = CatsAndDogs();
  class_labels.problem = spec::ProblemType::kMultiLabel;
  auto set = ImageSet::Make(*list, &class_labels, SmallProcessor(), {});
  ASSERT_TRUE(set.ok()) << set.status();
  const data::Batch batch = Collated(**set, {{1}, {0}});
  EXPECT_THAT(batch.targets, ElementsAre(0, 1, 1, 1));
  EXPECT_TRUE(batch.classes.empty());
  EXPECT_EQ(batch.loss_weight, 4);
}

TEST(ImageSet, RefusesALabelThatIsNone) {
  const fs::path folder = CatAndDogFolder("set_unknown");
  const std::string path = WriteImage(folder / "horse/1.png");
  auto list = ListImages({folder}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  const data::ClassLabels class_labels = CatsAndDogs();
  auto set = ImageSet::Make(*list, &class_labels, SmallProcessor(), {});
  EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(set.status().message()),
              testing::StartsWith(path + ": label: "));
}

TEST(ImageSet, NamesTheImageThatCannotBeDecoded) {
  const fs::path folder = CatAndDogFolder("set_damaged");
  const std::string photo = GoldenBytes("file.photo");
  const std::string path =
      WriteFile(folder / "dog/2.jpg", photo.substr(0, photo.size() - 100));
  const auto set = Open(folder);
  EXPECT_TRUE(set->Collate({{0}, {1}}, {}).ok());
  EXPECT_EQ(set->Collate({{0}, {3}}, {}).status(),
            absl::InvalidArgumentError(
                path + ": a damaged JPEG: the file is cut short"));
}

}  // namespace
}  // namespace mpsd::image
