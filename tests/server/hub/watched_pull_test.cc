// SPDX-License-Identifier: Apache-2.0
#include "server/hub/watched_pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::hub {
namespace {

models::PullNews News(int64_t received, const std::string& note = "") {
  models::PullNews news;
  news.commit = "c";
  news.received_bytes = received;
  news.total_bytes = 100;
  news.note = note;
  return news;
}

class WatchedPullTest : public testing::Test {
 protected:
  std::unique_ptr<models::PullWatch> Watch() {
    return pull_->Watch([this] { ++wakes_; });
  }
  static models::PullNews Next(models::PullWatch& watch) {
    const auto news = watch.Next();
    EXPECT_TRUE(news.ok() && news->has_value());
    return news.ok() && *news ? **news : models::PullNews();
  }
  static bool IsEmpty(models::PullWatch& watch) {
    const auto news = watch.Next();
    return news.ok() && !news->has_value();
  }

  fakes::FakeClock clock_;
  std::shared_ptr<WatchedPull> pull_ = std::make_shared<WatchedPull>(clock_);
  int wakes_ = 0;
};

TEST_F(WatchedPullTest, TellsEachNoteInItsTurnAndTheEnd) {
  auto watch = Watch();
  EXPECT_TRUE(IsEmpty(*watch));
  pull_->Tell(News(1, "first"));
  pull_->Tell(News(2, "second"));
  EXPECT_EQ(Next(*watch).note, "first");
  const models::PullNews second = Next(*watch);
  EXPECT_EQ(second.note, "second");
  EXPECT_EQ(second.received_bytes, 2);
  EXPECT_TRUE(IsEmpty(*watch));
  pull_->Tell(News(3));
  EXPECT_EQ(Next(*watch).received_bytes, 3);
  EXPECT_TRUE(IsEmpty(*watch));
  pull_->End(absl::OkStatus());
  EXPECT_TRUE(Next(*watch).done);
  EXPECT_TRUE(IsEmpty(*watch));
}

TEST_F(WatchedPullTest, AnErrorComesAfterTheNotes) {
  auto watch = Watch();
  pull_->Tell(News(1, "note"));
  pull_->End(absl::DataLossError("bad"));
  EXPECT_EQ(Next(*watch).note, "note");
  EXPECT_EQ(watch->Next().status(), absl::DataLossError("bad"));
}

TEST_F(WatchedPullTest, WhoComesLateLearnsTheStateWithItsLastNote) {
  pull_->Tell(News(1, "first"));
  pull_->Tell(News(50, "second"));
  auto watch = Watch();
  const models::PullNews news = Next(*watch);
  EXPECT_EQ(news.note, "second");
  EXPECT_EQ(news.received_bytes, 50);
  EXPECT_TRUE(IsEmpty(*watch));
  EXPECT_EQ(pull_->BytesLeft(), 50);
}

TEST_F(WatchedPullTest, ASlowWatcherLosesTheOldestNotes) {
  auto watch = Watch();
  for (size_t i = 0; i < 3 * WatchedPull::kNotes; ++i) {
    pull_->Tell(News(1, absl::StrCat(i)));
  }
  EXPECT_EQ(Next(*watch).note, absl::StrCat(2 * WatchedPull::kNotes));
}

TEST_F(WatchedPullTest, BytesAloneWakeFiveTimesASecondAtMost) {
  auto watch = Watch();
  for (int i = 0; i < 1000; ++i) {
    pull_->Tell(News(i));
    clock_.Advance(absl::Milliseconds(1));
  }
  EXPECT_EQ(wakes_, 5);
  pull_->Tell(News(1000, "a note wakes at once"));
  pull_->Tell(News(1000, "and another"));
  EXPECT_EQ(wakes_, 7);
}

TEST_F(WatchedPullTest, AWatchThatIsGoneIsNotWoken) {
  Watch().reset();
  pull_->Tell(News(1, "note"));
  EXPECT_EQ(wakes_, 0);
}

// A stream's last reference may go with the call that wakes it.
TEST_F(WatchedPullTest, AWakeUpMayEndItsWatch) {
  std::unique_ptr<models::PullWatch> watch;
  watch = pull_->Watch([&] { watch.reset(); });
  pull_->Tell(News(1, "note"));
  EXPECT_EQ(watch, nullptr);
}

}  // namespace
}  // namespace mpsd::hub
