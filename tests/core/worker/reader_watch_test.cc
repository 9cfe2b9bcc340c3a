// SPDX-License-Identifier: Apache-2.0
#include "core/worker/reader_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

namespace mpsd::worker {
namespace {

constexpr absl::Duration kOften = absl::Milliseconds(5);

class ReaderWatchTest : public testing::Test {
 protected:
  ReaderWatchTest() { EXPECT_EQ(pipe(ends_), 0); }
  ~ReaderWatchTest() override {
    close(ends_[1]);
    if (ends_[0] >= 0) close(ends_[0]);
  }
  void CloseReader() {
    close(ends_[0]);
    ends_[0] = -1;
  }

  int ends_[2];
  absl::Notification gone_;
};

TEST_F(ReaderWatchTest, TellsOnceThatTheReaderIsGone) {
  std::atomic<int> calls = 0;
  {
    const ReaderWatch watch(ends_[1], kOften, [&] {
      ++calls;
      gone_.Notify();
    });
    CloseReader();
    EXPECT_TRUE(gone_.WaitForNotificationWithTimeout(absl::Seconds(30)));
    absl::SleepFor(10 * kOften);
  }
  EXPECT_EQ(calls, 1);
}

// A full pipe whose reader is slow has a reader.
TEST_F(ReaderWatchTest, AReaderThatIsThereMayBeSlow) {
  ASSERT_EQ(fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
  while (write(ends_[1], "line\n", 5) > 0) {
  }
  const ReaderWatch watch(ends_[1], kOften, [&] { gone_.Notify(); });
  EXPECT_FALSE(gone_.WaitForNotificationWithTimeout(20 * kOften));
}

TEST_F(ReaderWatchTest, AFileHasAReader) {
  const int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  {
    const ReaderWatch watch(file, kOften, [&] { gone_.Notify(); });
    EXPECT_FALSE(gone_.WaitForNotificationWithTimeout(20 * kOften));
  }
  close(file);
}

TEST_F(ReaderWatchTest, EndsAtOnceWhateverItsInterval) {
  const ReaderWatch watch(ends_[1], absl::Hours(1), [&] { gone_.Notify(); });
}

}  // namespace
}  // namespace mpsd::worker
