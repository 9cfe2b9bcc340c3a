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

}  // namespace
}  // namespace mpsd::study
