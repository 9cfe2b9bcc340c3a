// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/log_stream.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

class LogSourceTest : public testing::Test {
 protected:
  LogSourceTest() {
    manager_.Put("a", jobs::State::kRunning);
    std::filesystem::create_directories(manager_.JobFolder("a"));
  }
  std::unique_ptr<Source<v1::LogChunk>> Logs(const std::string& id, bool follow,
                                             int64_t offset, Wake wake = {}) {
    v1::LogsRequest request;
    request.set_id(id);
    request.set_follow(follow);
    request.set_offset_bytes(offset);
    if (!wake) wake = [] {};
    return MakeLogSource(manager_, request, absl::Milliseconds(2), wake);
  }
  void Write(const std::string& text) {
    std::ofstream(manager_.LogPath("a"), std::ios::app) << text;
  }
  // The bytes up to the first kWait or kEnd, which `last_` keeps.
  std::string Drain(Source<v1::LogChunk>& source) {
    std::string bytes;
    while (true) {
      v1::LogChunk chunk;
      absl::StatusOr<Pull> pulled = source.Next(chunk);
      EXPECT_TRUE(pulled.ok()) << pulled.status();
      last_ = pulled.value_or(Pull::kEnd);
      if (last_ != Pull::kMessage) return bytes;
      if (!bytes.empty()) {
        EXPECT_EQ(chunk.offset_bytes(), next_offset_);
      }
      next_offset_ =
          chunk.offset_bytes() + static_cast<int64_t>(chunk.data().size());
      EXPECT_LE(chunk.data().size(), 65536u);
      bytes += chunk.data();
    }
  }

  Scratch scratch_;
  FakeManager manager_{scratch_.path()};
  Pull last_ = Pull::kMessage;
  int64_t next_offset_ = 0;
};

TEST_F(LogSourceTest, WithoutFollowItEndsWithTheFile) {
  const std::string text(200'000, 'x');
  Write(text + "\n");
  EXPECT_EQ(Drain(*Logs("a", false, 0)), text + "\n");
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(LogSourceTest, StartsAtTheOffset) {
  Write("0123456789");
  EXPECT_EQ(Drain(*Logs("a", false, 7)), "789");
  EXPECT_EQ(Drain(*Logs("a", false, 10)), "");
  EXPECT_EQ(Drain(*Logs("a", false, 1000)), "");
}

TEST_F(LogSourceTest, AFollowerWaitsForMoreAndForTheEnd) {
  auto source = Logs("a", true, 0);
  EXPECT_EQ(Drain(*source), "");  // the file is not there yet
  EXPECT_EQ(last_, Pull::kWait);
  Write("one\n");
  EXPECT_EQ(Drain(*source), "one\n");
  EXPECT_EQ(last_, Pull::kWait);
  Write("two\n");
  manager_.Put("a", jobs::State::kFailed);
  EXPECT_EQ(Drain(*source), "two\n");
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(LogSourceTest, AFollowerIsWokenThoughNobodySaysSo) {
  struct Wakes {
    std::atomic<int> count{0};
    absl::Notification second;
  };
  auto wakes = std::make_shared<Wakes>();
  auto source = Logs("a", true, 0, [wakes] {
    // The fake wakes once at Subscribe; the alarm comes after it.
    if (++wakes->count == 2) wakes->second.Notify();
  });
  EXPECT_EQ(Drain(*source), "");
  EXPECT_TRUE(wakes->second.WaitForNotificationWithTimeout(absl::Minutes(1)));
}

TEST_F(LogSourceTest, AnEndedJobsLogEndsAFollowerToo) {
  Write("all");
  manager_.Put("a", jobs::State::kSucceeded);
  EXPECT_EQ(Drain(*Logs("a", true, 0)), "all");
  EXPECT_EQ(last_, Pull::kEnd);
}

TEST_F(LogSourceTest, ErrorsAreTheCallers) {
  v1::LogChunk chunk;
  EXPECT_EQ(Logs("x", true, 0)->Next(chunk).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Logs("../a", false, 0)->Next(chunk).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Logs("", true, 0)->Next(chunk).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Logs("a", true, -1)->Next(chunk).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(manager_.subscribers(), 0);
}

}  // namespace
}  // namespace mpsd::rpc
