// SPDX-License-Identifier: Apache-2.0
#include "core/data/image_set.h"

#include "core/base/read_roots.h"
#include "core/data/augment.h"
#include "core/data/image_cache.h"
#include "core/data/image_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/data/image_files.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::image {

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing_support::Fails;
using testing_support::FreshFolder;
using testing_support::Says;

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
  auto list = *ListImages({WriteArrays(folder / "a.safetensors", images,
                                       at::zeros({64}, at::kLong))},
                          {});
  auto set = ImageSet::Make(list, nullptr, SmallProcessor(), {}).value();
  std::vector<std::vector<int64_t>> rows;
  for (int64_t i = 0; i < 64; ++i) rows.push_back({i});
  const data::Batch all = Collated(*set, rows);
  std::vector<float> one_by_one;
  for (const auto& row : rows) {
    const data::Batch batch = Collated(*set, {row});
    one_by_one.insert(one_by_one.end(), batch.pixels.begin(),
                      batch.pixels.end());
  }
  EXPECT_EQ(all.pixels, one_by_one);
}

TEST(ImageSet, HasNoClassesWithoutLabels) {
  auto list = ListImages({CatAndDogFolder("set_predict")}, {}).value();
  auto set = ImageSet::Make(list, nullptr, SmallProcessor(1), {}).value();
  const data::Batch batch = Collated(*set, {{1}});
  EXPECT_TRUE(batch.classes.empty());
  EXPECT_EQ(batch.channels, 1);
  EXPECT_EQ(std::ssize(batch.pixels), kSize * kSize);
  EXPECT_THAT(set->place(2), testing::EndsWith("dog/1.png"));
}

TEST(ImageSet, WeighsTheLossByClass) {
  auto list = ListImages({CatAndDogFolder("set_weights")}, {}).value();
  data::ClassLabels class_labels = CatsAndDogs();
  class_labels.weights = {0.25, 2};
  auto set = ImageSet::Make(list, &class_labels, SmallProcessor(), {}).value();
  EXPECT_EQ(Collated(*set, {{0}, {2}, {1}}).loss_weight, 2.5);
}

TEST(ImageSet, GivesTargetsOfSeveralLabels) {
  const fs::path folder = CatAndDogFolder("set_targets");
  const std::string rows =
      WriteFile(folder / "rows.jsonl",
                "{\"image\": \"cat/1.jpg\", \"label\": [\"dog\", \"cat\"]}\n"
                "{\"image\": \"cat/1.jpg\", \"label\": [\"dog\"]}\n");
  auto list = ListImages({rows}, {}).value();
  data::ClassLabels class_labels = CatsAndDogs();
  class_labels.problem = spec::ProblemType::kMultiLabel;
  auto set = ImageSet::Make(list, &class_labels, SmallProcessor(), {}).value();
  const data::Batch batch = Collated(*set, {{1}, {0}});
  EXPECT_THAT(batch.targets, ElementsAre(0, 1, 1, 1));
  EXPECT_TRUE(batch.classes.empty());
  EXPECT_EQ(batch.loss_weight, 4);
}

TEST(ImageSet, RefusesALabelThatIsNone) {
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
  const std::string path =
      WriteFile(folder / "dog/2.jpg", photo.substr(0, photo.size() - 100));
  const auto set = Open(folder);
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

TEST(ReadImage, DecodesFilesAndCopiesArrays) {
  const fs::path folder = FreshFolder("read_image");
  WriteImage(folder / "set/cat/1.jpg", "photo");
  const std::string arrays = WriteArrays(
      folder / "a.safetensors", at::arange(24, at::kByte).view({1, 2, 4, 3}),
      at::zeros({1}, at::kLong));
  auto list = ListImages({folder / "set", arrays}, {}).value();
  auto photo = ReadImage(list.entries[0]).value();
  EXPECT_EQ(photo, GoldenImage("rgb.photo"));
  auto array = ReadImage(list.entries[1]).value();
  EXPECT_EQ(array.channels, 3);
  EXPECT_EQ(array.pixels[23], 23);
}

TEST(ReadImage, NamesTheFileThatIsDamaged) {
  const fs::path folder = FreshFolder("read_damaged");
  const std::string photo = GoldenBytes("file.photo");
  WriteFile(folder / "1.jpg", photo.substr(0, photo.size() - 100));
  const std::string rows =
      WriteFile(folder / "rows.jsonl", R"({"image": "1.jpg", "label": "dog"})");
  auto list = ListImages({rows}, {}).value();
  EXPECT_EQ(
      ReadImage(list.entries[0]).status(),
      absl::InvalidArgumentError(rows + ":1: " + (folder / "1.jpg").string() +
                                 ": a damaged JPEG: the file is cut short"));
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
                           "cat/1.jpg", "1.5/x.png", "7/y.png"}) {
    WriteImage(folder / name);
  }
  WriteFile(folder / "dog/.DS_Store", "x");
  WriteFile(folder / ".git/config", "x");
  WriteFile(folder / "LICENSE.txt", "x");
  EXPECT_THAT(Labelled(folder),
              ElementsAre("1.5 x.png", "7 y.png", "cat 1.jpg", "dog a.png",
                          "dog b.png", "dog c.png"));
  auto list = ListImages({folder}, {});
  EXPECT_EQ(list->entries[0].label.kind, data::LabelValue::Kind::kWord);
  EXPECT_EQ(list->entries[1].label.kind, data::LabelValue::Kind::kInteger);
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
  struct Bad {
    const char* file;
    std::string bytes;
    std::string message;  // behind the file's or folder's path
  };
  for (const Bad& bad : {
           Bad{"cat/notes.txt", "hello", "neither PNG nor JPEG"},
           Bad{"cat/empty.png", "", "the file is empty, expected PNG or JPEG"},
           Bad{"cat/1.gif", "GIF89a", "neither PNG nor JPEG"},
           Bad{"cat/1.png", png.substr(0, 20),
               "a damaged PNG: the file is cut short"},
           Bad{"cat/1.jpg", jpeg.substr(0, 30),
               "a damaged JPEG: JPEG datastream contains no image"},
       }) {
    const fs::path folder = FreshFolder("folder_bad");
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

// Not even the names of files beyond the roots are told.
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
    std::string message;  // behind "<file>:2: "
  };
  for (const Bad& bad : {
           Bad{"{", "not valid JSON"},
           Bad{"[1]", "expected an object"},
           Bad{R"({"label": 1})",
               "image: expected the path of an image, found nothing"},
           Bad{R"({"image": 7, "label": 1})",
               "image: expected the path of an image, found 7"},
           Bad{R"({"image": "a.png"})", "label: missing"},
           Bad{R"({"image": "a.png", "label": null})", "label: missing"},
           Bad{R"({"image": "a.txt", "label": 1})",
               text + ": neither PNG nor JPEG"},
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

TEST(ImageCache, KeepsOneFormOfAnImage) {
  ImageCache cache(2, 100);
  EXPECT_EQ(cache.Find(1, Form::kDecoded), nullptr);
  const auto image = Of(10);
  cache.Offer(1, Form::kFitted, image);
  cache.Offer(1, Form::kDecoded, Of(20));
  EXPECT_EQ(cache.Find(1, Form::kFitted), image);
  EXPECT_EQ(cache.Find(1, Form::kDecoded), nullptr);
  EXPECT_EQ(cache.Find(0, Form::kFitted), nullptr);
  EXPECT_EQ(cache.bytes(), 10u);
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
