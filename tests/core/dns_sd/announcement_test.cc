// SPDX-License-Identifier: Apache-2.0
#include "core/dns_sd/announcement.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/time/clock.h"
#include "tests/core/dns_sd/fake_library.h"

namespace mpsd::dns_sd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AnnouncementTest : public testing::Test {
 protected:
  Announcement::Options Options() {
    Announcement::Options options;
    options.port = 7443;
    options.txt = {{"version", "0.1.0"}};
    options.retry = absl::Milliseconds(20);
    options.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      lines_.push_back(line);
    };
    return options;
  }
  std::vector<std::string> Lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }
  template <typename Condition>
  static void Await(Condition is_met) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!is_met() && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_TRUE(is_met());
  }

  FakeNetwork network_;
  const Library library_ = network_.library();
  absl::Mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(AnnouncementTest, LastsAsLongAsTheObject) {
  {
    Announcement announcement(&library_, Options());
    Await([&] { return !Lines().empty(); });
    EXPECT_EQ(network_.port, htons(7443));
    EXPECT_EQ(network_.txt, "\x0dversion=0.1.0");
    EXPECT_EQ(network_.open, 1);
  }
  EXPECT_EQ(network_.open, 0);
  EXPECT_EQ(network_.registrations, 1);
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr("as 'studio\\x1b[2J', port 7443")));
}

TEST_F(AnnouncementTest, AServiceThatIsAwayIsTriedAgainAndLoggedOnce) {
  network_.error = -65563;
  Announcement announcement(&library_, Options());
  Await([&] { return network_.registrations > 3; });
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("(-65563)")));
  network_.error = 0;
  Await([&] { return Lines().size() == 2; });
  EXPECT_THAT(Lines()[1], HasSubstr("advertised"));
}

TEST_F(AnnouncementTest, AServiceThatRestartsIsToldAgain) {
  network_.gone = true;
  Announcement announcement(&library_, Options());
  Await([&] { return network_.registrations > 2; });
  network_.gone = false;
  Await([&] { return Lines().size() == 2; });
  EXPECT_THAT(Lines(),
              ElementsAre(HasSubstr("has gone"), HasSubstr("advertised")));
}

TEST_F(AnnouncementTest, ARefusedNameIsTriedAgain) {
  network_.refused = -65548;
  Announcement announcement(&library_, Options());
  Await([&] { return network_.registrations > 1; });
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("refused (-65548)")));
}

TEST_F(AnnouncementTest, ASystemWithoutItIsALineInTheLog) {
  Announcement announcement(nullptr, Options());
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("libavahi-compat-libdnssd1")));
}

}  // namespace
}  // namespace mpsd::dns_sd
