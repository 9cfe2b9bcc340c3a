// SPDX-License-Identifier: Apache-2.0
#include "server/access/audit_trail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/test_store.h"

namespace mpsd::access {
namespace {

class AuditTrailTest : public testing::Test {
 protected:
  AuditTrailTest() { Open({}); }

  void Open(AuditTrail::Options options) {
    options.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      lines_.push_back(line);
    };
    trail_.reset();
    trail_ = std::make_unique<AuditTrail>(options, store_, clock_);
  }
  static Request By(const std::string& user) {
    Request request;
    request.caller.user = user;
    request.caller.origin = "192.168.1.7";
    request.method = "JobService.Cancel";
    request.job_id = "01J";
    return request;
  }
  void Refuse(const std::string& user, int times = 1) {
    for (int i = 0; i < times; ++i) {
      trail_->Refused(By(user), absl::PermissionDeniedError("not yours"));
    }
  }
  // The oldest first.
  std::vector<AuditEntry> Entries() {
    AuditFilter all;
    all.limit = 1 << 20;
    std::vector<AuditEntry> entries = store_.List(all).value();
    std::reverse(entries.begin(), entries.end());
    return entries;
  }
  std::vector<std::string> lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

  absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  fakes::FakeClock clock_;
  fakes::TestStore db_;
  AuditStore store_{db_.database()};
  std::unique_ptr<AuditTrail> trail_;
};

TEST_F(AuditTrailTest, ARequestIsRecordedBeforeItsResult) {
  const auto number = trail_->Begin(By("ada"));
  ASSERT_TRUE(number.ok());
  ASSERT_THAT(Entries(), SizeIs(1));
  EXPECT_EQ(Entries()[0].result, std::nullopt);
  EXPECT_EQ(Entries()[0].time, clock_.Now());
  trail_->End(*number, absl::OkStatus(), "01JNEW");
  EXPECT_EQ(Entries()[0].result, absl::StatusCode::kOk);
  EXPECT_EQ(Entries()[0].request.job_id, "01JNEW");
  // What cannot be noted is an error.
  db_.FillDisk();
  EXPECT_TRUE(absl::IsResourceExhausted(trail_->Begin(By("ada")).status()));
}

TEST_F(AuditTrailTest, ARefusalIsWritten) {
  Refuse("ada");
  trail_->Flush();
  ASSERT_THAT(Entries(), SizeIs(1));
  EXPECT_EQ(Entries()[0].result, absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Entries()[0].message, "not yours");
}

TEST_F(AuditTrailTest, AFloodOfRefusalsIsCounted) {
  Refuse("", 5000);
  Refuse("ada", 3);
  trail_->Flush();
  EXPECT_THAT(Entries(), SizeIs(60 + 3));
  clock_.Advance(absl::Minutes(1));
  trail_->Flush();
  ASSERT_THAT(Entries(), SizeIs(60 + 3 + 1));
  const AuditEntry last = Entries().back();
  EXPECT_EQ(last.request.caller.user, "");
  EXPECT_EQ(last.request.caller.origin, "192.168.1.7");
  EXPECT_THAT(last.request.detail, HasSubstr("4940 more"));
  EXPECT_EQ(last.result, absl::StatusCode::kPermissionDenied);
  Refuse("", 2);
  trail_->Flush();
  EXPECT_THAT(Entries(), SizeIs(60 + 3 + 1 + 2));
}

TEST_F(AuditTrailTest, ManyNamesAreOneFloodToo) {
  AuditTrail::Options options;
  options.refusals_a_minute = 1;
  Open(options);
  for (int i = 0; i < 3000; ++i) Refuse("user" + std::to_string(i));
  trail_->Flush();
  EXPECT_THAT(Entries(), SizeIs(1001));
}

TEST_F(AuditTrailTest, AnEndWritesWhatWaits) {
  Refuse("ada", 100);
  trail_.reset();
  EXPECT_THAT(Entries(), SizeIs(61));
}

TEST_F(AuditTrailTest, AClockSetBackLosesNothing) {
  Refuse("ada", 61);
  while (Entries().size() < 60) absl::SleepFor(absl::Milliseconds(1));
  clock_.SetBack(absl::Hours(2));
  Refuse("ada");
  trail_->Flush();
  EXPECT_THAT(Entries(), SizeIs(61));
  EXPECT_THAT(Entries().back().request.detail, HasSubstr("2 more"));
}

TEST_F(AuditTrailTest, TextThatIsTooLongOrMovesTheCursorIsMended) {
  Request request = By("ada");
  request.detail = "\x1b[2J" + std::string(2000, 'x');
  ASSERT_TRUE(trail_->Begin(request).ok());
  const std::string detail = Entries()[0].request.detail;
  EXPECT_EQ(detail.size(), limits::kAuditBytes);
  EXPECT_EQ(detail.substr(0, 7), "\\x1b[2J");
}

TEST_F(AuditTrailTest, ADiskThatIsFullIsLoggedOnceAMinute) {
  const auto number = trail_->Begin(By("ada"));
  db_.FillDisk();
  for (int i = 0; i < 5; ++i) trail_->End(*number, absl::OkStatus(), "");
  EXPECT_THAT(lines(), SizeIs(1));
  EXPECT_THAT(lines()[0], HasSubstr("disk is full"));
  clock_.Advance(absl::Minutes(2));
  trail_->End(*number, absl::OkStatus(), "");
  EXPECT_THAT(lines(), SizeIs(2));
}

TEST_F(AuditTrailTest, OldEntriesGoUnlessAllAreToBeKept) {
  const auto append = [this](absl::Duration age) {
    AuditEntry entry;
    entry.time = clock_.Now() - age;
    EXPECT_TRUE(store_.Append(entry).ok());
  };
  trail_.reset();
  append(absl::Hours(24 * 365 + 1));
  append(absl::Hours(24 * 365 - 1));
  // Each removes what is old when it begins.
  Open({});
  trail_.reset();
  ASSERT_THAT(Entries(), SizeIs(1));
  EXPECT_EQ(Entries()[0].time, clock_.Now() - absl::Hours(24 * 365 - 1));
  append(absl::Hours(24 * 10'000));
  AuditTrail::Options options;
  options.keep = absl::ZeroDuration();
  Open(options);
  trail_.reset();
  EXPECT_THAT(Entries(), SizeIs(2));
}

}  // namespace
}  // namespace mpsd::access
