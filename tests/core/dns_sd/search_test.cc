// SPDX-License-Identifier: Apache-2.0
#include "core/dns_sd/search.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/core/dns_sd/fake_library.h"

namespace mpsd::dns_sd {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(300);
// For searches that end by themselves, however slow the machine is.
constexpr absl::Duration kLong = absl::Seconds(60);

TEST(Search, FindsEachOnceByName) {
  FakeNetwork network;
  const std::string txt = EncodeTxt({{"version", "0.1.0"}});
  network.told = {{"studio", "studio.local.", htons(7443), txt},
                  {"mini", "mini.local", htons(7444), ""},
                  {"studio", "studio.local.", htons(7443), txt}};
  network.goes = true;
  const Library library = network.library();
  const auto found = Search(library, kLong);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].name, "mini");
  EXPECT_EQ((*found)[1].host, "studio.local");
  EXPECT_EQ((*found)[1].port, 7443);
  EXPECT_EQ((*found)[1].txt.at("version"), "0.1.0");
  EXPECT_EQ(network.open, 0) << "every connection is given back";
}

TEST(Search, NobodyThereTakesThePatience) {
  FakeNetwork network;
  const Library library = network.library();
  const absl::Time begin = absl::Now();
  const auto found = Search(library, kShort);
  EXPECT_GE(absl::Now() - begin, kShort - absl::Milliseconds(5));
  EXPECT_TRUE(found.ok() && found->empty());
}

TEST(Search, ANameThatNobodyStandsForHoldsNobodyUp) {
  FakeNetwork network;
  network.told = {{"ghost", "", 0, "", false},
                  {"studio", "studio.local", htons(1), ""}};
  network.goes = true;
  const Library library = network.library();
  const auto found = Search(library, kLong);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].name, "studio");
}

TEST(Search, NamesWithoutEnd) {
  FakeNetwork network;
  for (int i = 0; i < 500; ++i) {
    network.told.push_back({std::to_string(i), "h", htons(1), ""});
  }
  network.goes = true;
  const Library library = network.library();
  const auto found = Search(library, kLong);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size(), 64u);
}

TEST(Search, AServiceThatIsNotThereOrGoes) {
  FakeNetwork network;
  const Library library = network.library();
  network.gone = true;
  EXPECT_EQ(Search(library, kLong).status().code(),
            absl::StatusCode::kUnavailable);
  network.error = -65537;
  const auto found = Search(library, kLong);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(found.status().message()),
              testing::HasSubstr("(-65537)"));
  EXPECT_EQ(network.open, 0);
}

}  // namespace
}  // namespace mpsd::dns_sd
