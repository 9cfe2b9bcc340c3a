// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/executor.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

TEST(Executor, OneThreadRunsTasksInOrder) {
  std::vector<int> order;
  {
    Executor executor(1);
    for (int i = 0; i < 100; ++i) {
      executor.Post([&order, i] { order.push_back(i); });
    }
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(Executor, ThreadsRunAtTheSameTime) {
  auto* barrier = new absl::Barrier(3);
  Executor executor(2);
  const auto meet = [barrier] {
    if (barrier->Block()) delete barrier;
  };
  executor.Post(meet);
  executor.Post(meet);
  meet();  // returns only once both tasks run
}

TEST(Executor, ItsEndRunsWhatWasPostedAlsoByTasks) {
  std::atomic<int> ran{0};
  {
    Executor executor(2);
    for (int i = 0; i < 10; ++i) {
      executor.Post([&] {
        ++ran;
        executor.Post([&] { ++ran; });
      });
    }
  }
  EXPECT_EQ(ran, 20);
}

TEST(Executor, TakesNoMoreThanMayWait) {
  Executor executor(1);
  absl::Notification begun, go_on;
  executor.Post([&] {
    begun.Notify();
    go_on.WaitForNotification();
  });
  begun.WaitForNotification();
  std::atomic<int> ran{0};
  EXPECT_TRUE(executor.TryPost([&] { ++ran; }, 2));
  EXPECT_TRUE(executor.TryPost([&] { ++ran; }, 2));
  EXPECT_FALSE(executor.TryPost([&] { ++ran; }, 2));
  absl::Notification last;
  executor.Post([&] { last.Notify(); });
  go_on.Notify();
  last.WaitForNotification();
  EXPECT_EQ(ran, 2);
}

TEST(Executor, ATaskRunsOffTheThreadThatPosted) {
  Executor executor(1);
  std::promise<std::thread::id> ran_on;
  executor.Post([&] { ran_on.set_value(std::this_thread::get_id()); });
  EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
}

}  // namespace
}  // namespace mpsd::rpc
