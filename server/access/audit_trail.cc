// SPDX-License-Identifier: Apache-2.0
#include "server/access/audit_trail.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/text.h"

namespace mpsd::access {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);
// How long the thread sleeps unless it is woken.
constexpr absl::Duration kNap = absl::Seconds(15);
constexpr absl::Duration kPruneEvery = absl::Minutes(10);
// The number of users whose refusals are counted at a time. Known users are
// few; beyond that number the refusals of others count as those of unknown
// callers.
constexpr size_t kUsers = 1000;

std::string Text(const std::string& text) {
  return base::Shortened(base::Printable(text), limits::kAuditBytes);
}

absl::Status Clean(const absl::Status& status) {
  return absl::Status(status.code(), Text(std::string(status.message())));
}

absl::Time MinuteOf(absl::Time time) {
  return absl::UnixEpoch() + absl::Floor(time - absl::UnixEpoch(), kMinute);
}

}  // namespace

AuditTrail::AuditTrail(Options options, AuditStore& store,
                       const base::Clock& clock)
    : options_(std::move(options)), store_(store), clock_(clock) {
  thread_ = std::thread([this] { Run(); });
}

AuditTrail::~AuditTrail() {
  {
    base::MonitorLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
  Flush();
}

AuditEntry AuditTrail::EntryOf(const Request& request) const {
  AuditEntry entry;
  entry.time = clock_.Now();
  entry.request = request;
  entry.request.method = Text(request.method);
  entry.request.job_id = Text(request.job_id);
  entry.request.detail = Text(request.detail);
  entry.request.caller.origin = Text(request.caller.origin);
  entry.request.caller.credential = Text(request.caller.credential);
  return entry;
}

absl::StatusOr<int64_t> AuditTrail::Begin(const Request& request) {
  return store_.Append(EntryOf(request));
}

void AuditTrail::End(int64_t entry, const absl::Status& result,
                     const std::string& job_id) {
  const absl::Status written = store_.SetResult(entry, Clean(result), job_id);
  if (!written.ok()) Complain(written);
}

void AuditTrail::Refused(const Request& request, const absl::Status& why) {
  AuditEntry entry = EntryOf(request);
  entry.result = why.code();
  entry.message = Text(std::string(why.message()));
  base::MonitorLock lock(&mutex_);
  std::string user = entry.request.caller.user;
  if (minutes_.size() >= kUsers && !minutes_.contains(user)) user.clear();
  Minute& minute = minutes_[user];
  // A minute whose count is not written yet keeps counting.
  if (minute.more == 0 && minute.start != MinuteOf(entry.time)) {
    minute = Minute();
    minute.start = MinuteOf(entry.time);
  }
  if (minute.written < options_.refusals_a_minute) {
    ++minute.written;
    waiting_.push_back(std::move(entry));
  } else {
    ++minute.more;
    minute.last = std::move(entry.request);
    minute.code = why.code();
  }
}

std::deque<AuditEntry> AuditTrail::TakeWaiting() {
  const absl::Time now = clock_.Now();
  base::MonitorLock lock(&mutex_);
  std::deque<AuditEntry> taken = std::exchange(waiting_, {});
  for (auto it = minutes_.begin(); it != minutes_.end();) {
    Minute& minute = it->second;
    if (!stopped_ && minute.start == MinuteOf(now)) {
      ++it;
      continue;
    }
    if (minute.more > 0) {
      AuditEntry& entry = taken.emplace_back();
      entry.time = now;
      entry.request = std::move(minute.last);
      entry.request.job_id.clear();
      entry.request.detail = absl::StrCat("the last of ", minute.more,
                                          " more requests that were refused");
      entry.result = minute.code;
    }
    it = minutes_.erase(it);
  }
  return taken;
}

void AuditTrail::Write(const std::deque<AuditEntry>& entries) {
  for (const AuditEntry& entry : entries) {
    const absl::StatusOr<int64_t> written = store_.Append(entry);
    if (!written.ok()) Complain(written.status());
  }
}

void AuditTrail::Flush() {
  absl::MutexLock lock(&writing_);
  Write(TakeWaiting());
}

void AuditTrail::Prune() {
  const absl::Time oldest = options_.keep == absl::ZeroDuration()
                                ? absl::InfinitePast()
                                : clock_.Now() - options_.keep;
  absl::StatusOr<int64_t> removed = 1;
  while (removed.ok() && *removed > 0) {
    removed = store_.Prune(oldest, options_.most_entries);
    base::MonitorLock lock(&mutex_);
    if (stopped_) return;
  }
  if (!removed.ok()) Complain(removed.status());
}

void AuditTrail::Run() {
  absl::Duration pruned = -absl::InfiniteDuration();
  while (true) {
    Flush();
    if (clock_.Monotonic() - pruned >= kPruneEvery) {
      Prune();
      pruned = clock_.Monotonic();
    }
    const auto roused = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stopped_ || !waiting_.empty();
    };
    base::MonitorLock lock(&mutex_);
    mutex_.AwaitFor(kNap, roused);
    if (stopped_) return;
  }
}

void AuditTrail::Complain(const absl::Status& status) {
  {
    base::MonitorLock lock(&mutex_);
    const absl::Time now = clock_.Now();
    if (now < complained_ + kMinute && now >= complained_) return;
    complained_ = now;
  }
  options_.log(absl::StrCat("the audit has gaps: ", status.message()));
}

}  // namespace mpsd::access
