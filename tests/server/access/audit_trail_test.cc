// SPDX-License-Identifier: Apache-2.0
#include "server/access/audit_trail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::access {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// A store in memory. Thread-safe.
class FakeStore final : public AuditStore {
 public:
  absl::StatusOr<int64_t> Append(const AuditEntry& entry) override {
    absl::MutexLock lock(&mutex_);
    if (!fail_.ok()) return fail_;
    entries_.push_back(entry);
    entries_.back().number = static_cast<int64_t>(entries_.size());
    return entries_.back().number;
  }
  absl::Status SetResult(int64_t number, const absl::Status& result,
                         const std::string& job_id) override {
    absl::MutexLock lock(&mutex_);
    if (!fail_.ok()) return fail_;
    AuditEntry& entry = entries_[number - 1];
    entry.result = result.code();
    entry.message = std::string(result.message());
    if (!job_id.empty()) entry.request.job_id = job_id;
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<AuditEntry>> List(const AuditFilter&) override {
    return entries();
  }
  absl::StatusOr<int64_t> Prune(absl::Time time, int64_t) override {
    absl::MutexLock lock(&mutex_);
    pruned_ = time;
    return 0;
  }
  std::vector<AuditEntry> entries() {
    absl::MutexLock lock(&mutex_);
    return entries_;
  }
  void Fail(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    fail_ = status;
  }
  void WaitForEntries(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [this, count]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return entries_.size() >= count;
    };
    mutex_.Await(absl::Condition(&there));
  }
  absl::Time WaitForPrune() {
    absl::MutexLock lock(&mutex_);
    const auto pruned = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return pruned_ != absl::InfiniteFuture();
    };
    mutex_.Await(absl::Condition(&pruned));
    return pruned_;
  }

 private:
  absl::Mutex mutex_;
  absl::Status fail_ ABSL_GUARDED_BY(mutex_);
  std::vector<AuditEntry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::Time pruned_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

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
  std::vector<std::string> lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

  absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  fakes::FakeClock clock_;
  FakeStore store_;
  std::unique_ptr<AuditTrail> trail_;
};

TEST_F(AuditTrailTest, ARequestStandsThereBeforeItsResult) {
  const auto number = trail_->Begin(By("ada"));
  ASSERT_TRUE(number.ok());
  ASSERT_THAT(store_.entries(), SizeIs(1));
  EXPECT_EQ(store_.entries()[0].result, std::nullopt);
  EXPECT_EQ(store_.entries()[0].time, clock_.Now());
  trail_->End(*number, absl::OkStatus(), "01JNEW");
  EXPECT_EQ(store_.entries()[0].result, absl::StatusCode::kOk);
  EXPECT_EQ(store_.entries()[0].request.job_id, "01JNEW");
  // What cannot be noted is an error.
  store_.Fail(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(trail_->Begin(By("ada")).status()));
}

TEST_F(AuditTrailTest, ARefusalIsWritten) {
  Refuse("ada");
  trail_->Flush();
  ASSERT_THAT(store_.entries(), SizeIs(1));
  EXPECT_EQ(store_.entries()[0].result, absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(store_.entries()[0].message, "not yours");
}

TEST_F(AuditTrailTest, AFloodOfRefusalsIsCounted) {
  Refuse("", 5000);
  Refuse("ada", 3);
  trail_->Flush();
  EXPECT_THAT(store_.entries(), SizeIs(60 + 3));
  clock_.Advance(absl::Minutes(1));
  trail_->Flush();
  ASSERT_THAT(store_.entries(), SizeIs(60 + 3 + 1));
  const AuditEntry last = store_.entries().back();
  EXPECT_EQ(last.request.caller.user, "");
  EXPECT_EQ(last.request.caller.origin, "192.168.1.7");
  EXPECT_THAT(last.request.detail, HasSubstr("4940 more"));
  EXPECT_EQ(last.result, absl::StatusCode::kPermissionDenied);
  Refuse("", 2);
  trail_->Flush();
  EXPECT_THAT(store_.entries(), SizeIs(60 + 3 + 1 + 2));
}

TEST_F(AuditTrailTest, ManyNamesAreOneFloodToo) {
  AuditTrail::Options options;
  options.refusals_a_minute = 1;
  Open(options);
  for (int i = 0; i < 3000; ++i) Refuse("user" + std::to_string(i));
  trail_->Flush();
  EXPECT_THAT(store_.entries(), SizeIs(1001));
}

TEST_F(AuditTrailTest, AnEndWritesWhatWaits) {
  Refuse("ada", 100);
  trail_.reset();
  EXPECT_THAT(store_.entries(), SizeIs(61));
}

TEST_F(AuditTrailTest, AClockSetBackLosesNothing) {
  Refuse("ada", 61);
  store_.WaitForEntries(60);  // the trail's thread sleeps now
  clock_.SetBack(absl::Hours(2));
  Refuse("ada");
  trail_->Flush();
  EXPECT_THAT(store_.entries(), SizeIs(61));
  EXPECT_THAT(store_.entries().back().request.detail, HasSubstr("2 more"));
}

TEST_F(AuditTrailTest, TextThatIsTooLongOrMovesTheCursorIsMended) {
  Request request = By("ada");
  request.detail = "\x1b[2J" + std::string(2000, 'x');
  ASSERT_TRUE(trail_->Begin(request).ok());
  const std::string detail = store_.entries()[0].request.detail;
  EXPECT_EQ(detail.size(), limits::kAuditBytes);
  EXPECT_EQ(detail.substr(0, 7), "\\x1b[2J");
}

TEST_F(AuditTrailTest, ADiskThatIsFullIsLoggedOnceAMinute) {
  const auto number = trail_->Begin(By("ada"));
  store_.Fail(absl::ResourceExhaustedError("disk full"));
  for (int i = 0; i < 5; ++i) trail_->End(*number, absl::OkStatus(), "");
  EXPECT_THAT(lines(), SizeIs(1));
  EXPECT_THAT(lines()[0], HasSubstr("disk full"));
  clock_.Advance(absl::Minutes(2));
  trail_->End(*number, absl::OkStatus(), "");
  EXPECT_THAT(lines(), SizeIs(2));
}

TEST_F(AuditTrailTest, OldEntriesGoUnlessAllAreToBeKept) {
  EXPECT_EQ(store_.WaitForPrune(), clock_.Now() - absl::Hours(24 * 365));
  trail_.reset();
  FakeStore store;
  AuditTrail::Options options;
  options.keep = absl::ZeroDuration();
  AuditTrail trail(options, store, clock_);
  EXPECT_EQ(store.WaitForPrune(), absl::InfinitePast());
}

}  // namespace
}  // namespace mpsd::access
