// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

TEST(Journal, WritesInOrderWhatWasAdded) {
  std::vector<std::string> written;
  Journal journal([&](const std::string& id, const std::string& line) {
    written.push_back(absl::StrCat(id, "/", line));
  });
  journal.Add("a", "1");
  journal.Add("", "2");
  EXPECT_THAT(written, SizeIs(0));
  journal.Write();
  EXPECT_THAT(written, ElementsAre("a/1", "/2"));
  journal.Write();
  EXPECT_THAT(written, SizeIs(2));
}

TEST(Journal, ALogThatHangsHoldsOneThreadAndLosesTheLastLines) {
  absl::Notification hangs, go;
  std::vector<std::string> written;
  Journal journal([&](const std::string&, const std::string& line) {
    if (!hangs.HasBeenNotified()) {
      hangs.Notify();
      go.WaitForNotification();
    }
    written.push_back(line);
  });
  journal.Add("", "first");
  std::thread writer([&] { journal.Write(); });
  hangs.WaitForNotification();
  for (size_t i = 0; i < Journal::kMostWaiting + 3; ++i) {
    journal.Add("", "more");
    journal.Write();  // would hang, too, if it waited for the other
  }
  go.Notify();
  writer.join();
  ASSERT_THAT(written, SizeIs(1 + Journal::kMostWaiting + 1));
  EXPECT_EQ(written.front(), "first");
  EXPECT_EQ(written.back(), "3 lines are missing here: the log hung");
}

TEST(Relay, EveryAskIsServed) {
  Relay relay;
  std::atomic<int> asked = 0;
  int served = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        ++asked;
        relay.Ask();
        relay.Run([&] { served = asked; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 4000);
}

}  // namespace
}  // namespace mpsd::jobs
