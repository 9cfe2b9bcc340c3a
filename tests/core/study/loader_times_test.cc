// SPDX-License-Identifier: Apache-2.0
#include "core/study/loader_times.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/study/slow_source.h"

namespace mpsd::study {
namespace {

data::LoaderOptions Options() {
  data::LoaderOptions options;
  options.batch_size = 2;
  return options;
}

bool Always() { return true; }

TEST(TimeLoader, TimesTheLoaderAlone) {
  const SlowSource source(8, absl::Milliseconds(3));
  const auto times = TimeLoader(source, Options(), 5, Always);
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->seconds.size(), 5u);
  for (const double seconds : times->seconds) EXPECT_GE(seconds, 0.003);
}

// The samples are those of training's first steps, an epoch after the other.
TEST(TimeLoader, SaysWhichSamplesTheFirstStepsHave) {
  const SlowSource source(8, absl::ZeroDuration());
  const auto times = TimeLoader(source, Options(), 6, Always);
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->samples.size(), 6u);
  EXPECT_EQ(TimeLoader(source, Options(), 6, Always)->samples, times->samples);
  const auto fewer = TimeLoader(source, Options(), 3, Always);
  EXPECT_EQ(fewer->samples,
            std::vector<std::string>(times->samples.begin(),
                                     times->samples.begin() + 3));
  data::LoaderOptions other = Options();
  other.seed = 7;
  EXPECT_NE(TimeLoader(source, other, 6, Always)->samples, times->samples);
}

TEST(TimeLoader, EndsWithTheSourceAndOnRequest) {
  SlowSource source(8, absl::ZeroDuration());
  int asked = 0;
  EXPECT_EQ(TimeLoader(source, Options(), 5, [&] { return ++asked < 3; })
                .status()
                .code(),
            absl::StatusCode::kCancelled);
  source.error = absl::NotFoundError("image 3");
  EXPECT_EQ(TimeLoader(source, Options(), 5, Always).status().code(),
            absl::StatusCode::kNotFound);
}

// Rows of the given lengths, padded to `length`; sample i begins with 10 · i.
data::Batch Rows(const std::vector<int64_t>& samples, int64_t length) {
  data::Batch batch;
  batch.rows = static_cast<int64_t>(samples.size());
  batch.length = length;
  for (const int64_t sample : samples) {
    for (int64_t i = 0; i < length; ++i) {
      const bool real = i <= sample;
      batch.input_ids.push_back(real ? 10 * sample + i : 0);
      batch.labels.push_back(real ? 10 * sample + i : -100);
      batch.segment_ids.push_back(real ? 0 : -1);
    }
  }
  return batch;
}

TEST(DigestOfSamples, PaddingOrderAndSplitDoNotMatter) {
  const std::string digest = DigestOfSamples({Rows({1, 2, 3}, 4)});
  EXPECT_EQ(DigestOfSamples({Rows({1, 2, 3}, 8)}), digest);
  EXPECT_EQ(DigestOfSamples({Rows({3, 1, 2}, 4)}), digest);
  EXPECT_EQ(DigestOfSamples({Rows({3}, 4), Rows({1, 2}, 16)}), digest);
  // Side by side in one row.
  data::Batch packed;
  packed.rows = 1;
  packed.length = 10;
  packed.input_ids = {10, 11, 20, 21, 22, 30, 31, 32, 33, 0};
  packed.labels = packed.input_ids;
  packed.segment_ids = {0, 0, 1, 1, 1, 2, 2, 2, 2, -1};
  EXPECT_EQ(DigestOfSamples({packed}), digest);
}

TEST(DigestOfSamples, SamplesMatter) {
  const std::string digest = DigestOfSamples({Rows({1, 2, 3}, 4)});
  EXPECT_NE(DigestOfSamples({Rows({1, 2}, 4)}), digest);
  EXPECT_NE(DigestOfSamples({Rows({1, 2, 2}, 4)}), digest);
  EXPECT_NE(DigestOfSamples({Rows({1, 2, 3, 3}, 4)}), digest);
  data::Batch masked = Rows({1, 2, 3}, 4);
  masked.labels[0] = -100;
  EXPECT_NE(DigestOfSamples({masked}), digest);
}

TEST(DigestOfSamples, ClassesAndPixelsMatter) {
  data::Batch images;
  images.rows = 2;
  images.length = 1;
  images.classes = {0, 1};
  images.pixels = {1, 2, 3, 4};
  const std::string digest = DigestOfSamples({images});
  data::Batch other = images;
  other.classes = {1, 1};
  EXPECT_NE(DigestOfSamples({other}), digest);
  other = images;
  other.pixels[3] = 5;
  EXPECT_NE(DigestOfSamples({other}), digest);
  other.classes = {1, 0};
  other.pixels = {3, 4, 1, 2};
  EXPECT_EQ(DigestOfSamples({other}), digest);
  data::Batch texts;
  texts.rows = 2;
  texts.length = 3;
  texts.input_ids = {1, 2, 0, 3, 4, 5};
  texts.lengths = {2, 3};
  texts.classes = {0, 1};
  const std::string of_texts = DigestOfSamples({texts});
  texts.input_ids[2] = 9;  // padding
  EXPECT_EQ(DigestOfSamples({texts}), of_texts);
  texts.input_ids[1] = 9;
  EXPECT_NE(DigestOfSamples({texts}), of_texts);
}

}  // namespace
}  // namespace mpsd::study
