// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/watch_stream.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

using ::testing::ElementsAre;

class WatchSourceTest : public testing::Test {
 protected:
  std::unique_ptr<Source<v1::JobEvent>> Watch(const std::string& id,
                                              int64_t after) {
    v1::WatchRequest request;
    request.set_id(id);
    request.set_after_sequence(after);
    return MakeWatchSource(manager_, request, [this] { ++wakes_; });
  }
  // The sequences up to the first kWait or kEnd, which `last_` keeps.
  std::vector<int64_t> Drain(Source<v1::JobEvent>& source) {
    std::vector<int64_t> sequences;
    while (true) {
      v1::JobEvent event;
      absl::StatusOr<Pull> pulled = source.Next(event);
      EXPECT_TRUE(pulled.ok()) << pulled.status();
      last_ = pulled.value_or(Pull::kEnd);
      if (last_ != Pull::kMessage) return sequences;
      sequences.push_back(event.sequence());
    }
  }

  FakeManager manager_;
  std::atomic<int> wakes_{0};
  Pull last_ = Pull::kMessage;
};

TEST_F(WatchSourceTest, StoredEventsThenThoseToCome) {
  manager_.Put("a", jobs::State::kRunning);
  manager_.AppendProgress("a", 1);
  manager_.AppendProgress("a", 2);
  auto source = Watch("a", 0);
  EXPECT_THAT(Drain(*source), ElementsAre(1, 2));
  EXPECT_EQ(last_, Pull::kWait);
  const int before = wakes_;
  manager_.AppendProgress("a", 3);
  EXPECT_EQ(wakes_, before + 1);
  EXPECT_THAT(Drain(*source), ElementsAre(3));
  manager_.Append("a", jobs::StateChanged{jobs::State::kSucceeded, ""});
  EXPECT_THAT(Drain(*source), ElementsAre(4));
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(WatchSourceTest, ResumesAfterASequence) {
  manager_.Put("a", jobs::State::kRunning);
  for (int i = 1; i <= 2500; ++i) manager_.AppendProgress("a", i);
  auto source = Watch("a", 2497);
  EXPECT_THAT(Drain(*source), ElementsAre(2498, 2499, 2500));
  auto whole = Watch("a", 0);  // over several pages
  EXPECT_EQ(Drain(*whole).size(), 2500u);
  auto beyond = Watch("a", 9999);
  EXPECT_THAT(Drain(*beyond), ElementsAre());
  EXPECT_EQ(last_, Pull::kWait);
}

TEST_F(WatchSourceTest, EndsWithTheFinalStateThatTheJobIsIn) {
  manager_.Put("a", jobs::State::kRunning);
  manager_.Append("a", jobs::StateChanged{jobs::State::kQueued, "retry"});
  manager_.Append("a", jobs::StateChanged{jobs::State::kCancelled, ""});
  EXPECT_THAT(Drain(*Watch("a", 0)), ElementsAre(1, 2));
  EXPECT_EQ(last_, Pull::kEnd);
  // It was tried again.
  manager_.Append("a", jobs::StateChanged{jobs::State::kQueued, ""});
  auto again = Watch("a", 0);
  EXPECT_THAT(Drain(*again), ElementsAre(1, 2, 3));
  EXPECT_EQ(last_, Pull::kWait);
  manager_.Append("a", jobs::StateChanged{jobs::State::kSucceeded, ""});
  EXPECT_THAT(Drain(*again), ElementsAre(4));
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(WatchSourceTest, AWatcherOfAnEndedJobEnds) {
  manager_.Put("a", jobs::State::kRunning);
  manager_.Append("a", jobs::StateChanged{jobs::State::kFailed, ""});
  EXPECT_THAT(Drain(*Watch("a", 1)), ElementsAre());
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(WatchSourceTest, ErrorsAreTheCallers) {
  v1::JobEvent event;
  EXPECT_EQ(Watch("x", 0)->Next(event).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Watch("", 0)->Next(event).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Watch("x", -1)->Next(event).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(WatchSourceTest, UnsubscribesWithItsEnd) {
  manager_.Put("a", jobs::State::kRunning);
  auto source = Watch("a", 0);
  EXPECT_EQ(manager_.subscribers(), 1);
  source.reset();
  EXPECT_EQ(manager_.subscribers(), 0);
}

}  // namespace
}  // namespace mpsd::rpc
