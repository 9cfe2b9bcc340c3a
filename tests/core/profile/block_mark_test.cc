// SPDX-License-Identifier: Apache-2.0
#include "core/profile/block_mark.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "tests/core/calls.h"

namespace mpsd::profile {
namespace {

// The names of the marks that `run` makes on its own thread.
std::vector<std::string> MarksOf(const std::function<void()>& run) {
  static thread_local std::vector<std::string> names;
  names.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& f)
                                     -> std::unique_ptr<at::ObserverContext> {
        names.push_back(f.name());
        return nullptr;
      }).scopes({at::RecordScope::USER_SCOPE}));
  run();
  at::removeCallback(handle);
  return names;
}

TEST(BlockMarkTest, NamesItselfToWhoListens) {
  EXPECT_EQ(
      MarksOf([] {
        const BlockMark layer(11, " backward");
        const BlockMark block("mpsd::attention");
      }),
      (std::vector<std::string>{"mpsd::layer 11 backward", "mpsd::attention"}));
}

TEST(BlockMarkTest, IsNoOperator) {
  EXPECT_TRUE(testing_support::CallsOf([] {
                const BlockMark block("mpsd::attention");
              }).empty());
}

// What this thread has computed: other programs add nothing to it.
double ThreadSeconds() {
  timespec time = {};
  EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

// A step has some hundred marks and takes milliseconds.
TEST(BlockMarkTest, CostsNextToNothingWhereNobodyListens) {
  constexpr int kMarks = 100'000;
  double least = 1;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = ThreadSeconds();
    for (int i = 0; i < kMarks; ++i) {
      const BlockMark layer(i, "");
    }
    least = std::min(least, (ThreadSeconds() - start) / kMarks);
  }
  RecordProperty("nanoseconds", std::to_string(least * 1e9));
  EXPECT_LT(least, 1e-6);
}

}  // namespace
}  // namespace mpsd::profile
