// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "server/jobs/job_board.h"

namespace mpsd::jobs {
namespace {

TEST(EventHub, WakesThoseWhoWaitForTheJob) {
  EventHub hub;
  int first = 0, second = 0, other = 0;
  hub.Subscribe("A", [&] { ++first; });
  hub.Subscribe("A", [&] { ++second; });
  hub.Subscribe("B", [&] { ++other; });
  hub.Wake("A");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(other, 0);
  hub.Wake("nobody");
}

TEST(EventHub, NobodyIsWokenAfterUnsubscribe) {
  EventHub hub;
  int first = 0, second = 0;
  const int64_t token = hub.Subscribe("A", [&] { ++first; });
  hub.Subscribe("A", [&] { ++second; });
  hub.Unsubscribe(token);
  hub.Unsubscribe(token);
  hub.Wake("A");
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

}  // namespace
}  // namespace mpsd::jobs
