// SPDX-License-Identifier: Apache-2.0
#include "client/top_feed.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/retry_pause.h"
#include "client/text/format.h"
#include "client/top_caller.h"

namespace mpsd::client {
namespace {

constexpr absl::Duration kBetweenPolls = absl::Seconds(1);
// A list is fetched anew when the numbers of jobs have changed, else this much
// later, and never more often than a 20th of the time.
constexpr absl::Duration kBetweenLists = absl::Seconds(5);
constexpr int kListShare = 20;
constexpr int kPageSize = 500;

std::string Why(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return "mpsd did not answer in time";
  }
  if (status.error_message().empty()) {
    return absl::StrCat("gRPC status ", static_cast<int>(status.error_code()));
  }
  return status.error_message();
}

}  // namespace

// What the threads of a feed have in common.
class TopFeed::Shared {
 public:
  explicit Shared(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Hands an update to Take; waits where too many wait for it. Drops the update
  // once it is unwanted.
  void Push(top::Update update, const std::atomic<bool>& unwanted) {
    bool first = false;
    {
      const auto has_room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return updates_.size() < kMostUpdates || stopped_;
      };
      absl::MutexLock lock(&mutex_);
      while (!unwanted && !mutex_.AwaitWithTimeout(absl::Condition(&has_room),
                                                   absl::Milliseconds(100))) {
      }
      if (stopped_ || unwanted) return;
      first = updates_.empty();
      updates_.push_back(std::move(update));
    }
    if (first) wake_();
  }
  std::vector<top::Update> Take() {
    absl::MutexLock lock(&mutex_);
    std::vector<top::Update> updates;
    updates.swap(updates_);
    return updates;
  }
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }

 private:
  const std::function<void()> wake_;
  absl::Mutex mutex_;
  std::vector<top::Update> updates_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// Asks for the state of the daemon, its running jobs and the list.
class TopFeed::Poll : public Caller {
 public:
  Poll(const Address& address, const base::Clock& clock, Shared* shared)
      : Caller(address), clock_(clock), shared_(*shared) {
    Start([this] { Run(); });
  }

  // Fetches the list at the next opportunity.
  void ListSoon() { list_soon_ = true; }

 private:
  void Run() {
    RetryPause pause(console());
    while (!broken()) {
      const grpc::Status status = Ask();
      if (status.ok()) {
        pause.Restart();
        Sleep(kBetweenPolls);
        continue;
      }
      shared_.Push(top::Lost{WhyLost(status)}, broken());
      next_list_ = absl::ZeroDuration();
      pause.Wait();
    }
  }

  // The first line of why there is no tunnel says more than that the socket at
  // its end is not there.
  std::string WhyLost(const grpc::Status& status) const {
    const std::string tunnel(tunnel_status().message());
    return tunnel.empty() ? Why(status) : tunnel.substr(0, tunnel.find('\n'));
  }

  grpc::Status Ask() {
    top::Answered answer;
    {
      Call call(*this);
      const grpc::Status status =
          daemon().Info(call.hurried(), v1::InfoRequest(), &answer.info);
      if (!status.ok()) return status;
    }
    const v1::InfoResponse& info = answer.info;
    const std::string counts = absl::StrCat(
        info.queued_jobs(), " ", info.running_jobs(), info.running_job_id());
    if (info.running_jobs() > 0) {
      v1::ListJobsRequest request;
      request.set_page_size(kPageSize);
      request.add_states(v1::JOB_STATE_RUNNING);
      std::string next;
      const grpc::Status status = Page(
          request, [&](v1::Job& job) { answer.running.push_back(job); }, &next);
      if (!status.ok()) return status;
    }
    answer.time = clock_.Now();
    shared_.Push(std::move(answer), broken());
    return List(counts);
  }

  grpc::Status List(const std::string& counts) {
    const absl::Duration begin = clock_.Monotonic();
    const bool changed = list_soon_.exchange(false) || counts != counts_;
    if (begin < (changed ? next_list_ : next_list_ + kBetweenLists)) {
      // The wish stays until its time has come.
      if (changed) list_soon_ = true;
      return grpc::Status::OK;
    }
    top::Listed listed;
    const grpc::Status status = Fetch(&listed);
    if (!status.ok()) return status;
    counts_ = counts;
    shared_.Push(std::move(listed), broken());
    const absl::Duration end = clock_.Monotonic();
    next_list_ = end + kListShare * (end - begin);
    return status;
  }

  // All jobs that have not ended, and the last that have.
  grpc::Status Fetch(top::Listed* listed) {
    std::unordered_map<std::string, size_t> places;
    const auto add = [&](const v1::Job& job) {
      // A job that changed its state between two pages comes twice; the later
      // row is the newer one.
      const auto [it, is_new] = places.emplace(job.id(), listed->rows.size());
      if (is_new) {
        listed->rows.push_back(top::RowOf(job));
      } else {
        listed->rows[it->second] = top::RowOf(job);
      }
    };
    v1::ListJobsRequest request;
    request.set_page_size(kPageSize);
    request.add_states(v1::JOB_STATE_QUEUED);
    request.add_states(v1::JOB_STATE_RUNNING);
    std::string next;
    do {
      request.set_page_token(next);
      const grpc::Status status = Page(request, add, &next);
      if (!status.ok()) return status;
    } while (!next.empty() && listed->rows.size() < kMostJobs);
    listed->more = !next.empty();
    request.Clear();
    request.set_page_size(kMostEndedJobs);
    for (const v1::JobState state :
         {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED,
          v1::JOB_STATE_CANCELLED}) {
      request.add_states(state);
    }
    const grpc::Status status = Page(request, add, &next);
    listed->more = listed->more || !next.empty();
    return status;
  }

  template <typename Take>
  grpc::Status Page(const v1::ListJobsRequest& request, Take take,
                    std::string* next) {
    Call call(*this);
    v1::ListJobsResponse response;
    const grpc::Status status = jobs().List(call.hurried(), request, &response);
    if (!status.ok()) return status;
    for (v1::Job& job : *response.mutable_jobs()) take(job);
    *next = response.next_page_token();
    return status;
  }

  const base::Clock& clock_;
  Shared& shared_;
  std::atomic<bool> list_soon_{true};
  std::string counts_;
  absl::Duration next_list_;
};

class TopFeed::Events : public Follower {
 public:
  Events(const Address& address, Shared* shared)
      : Follower(address), shared_(*shared) {
    Start([this] { Run(); });
  }

 private:
  void Begin(const std::string&) override { last_ = 0; }

  grpc::Status Stream(const std::string& id, bool* received) override {
    {
      Call call(*this);
      v1::GetJobRequest request;
      request.set_id(id);
      top::ShownJob shown;
      const grpc::Status status =
          jobs().Get(call.hurried(), request, &shown.job);
      if (!status.ok()) return status;
      // Not shown, and large.
      shown.job.clear_spec_json();
      shown.job.clear_confusion_matrix_json();
      shared_.Push(std::move(shown), broken());
    }
    Call call(*this);
    v1::WatchRequest request;
    request.set_id(id);
    request.set_after_sequence(last_);
    const auto reader = jobs().Watch(call.context(), request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      *received = true;
      last_ = event.sequence();
      shared_.Push(top::ShownEvent{id, std::move(event)}, broken());
      event.Clear();
    }
    return reader->Finish();
  }

  void GiveUp(const std::string& id, const grpc::Status&) override {
    shared_.Push(top::NotShown{id}, broken());
  }

  Shared& shared_;
  int64_t last_ = 0;
};

class TopFeed::Log : public Follower {
 public:
  Log(const Address& address, Shared* shared)
      : Follower(address), shared_(*shared) {
    Start([this] { Run(); });
  }

 private:
  void Begin(const std::string&) override { offset_ = 0; }

  grpc::Status Stream(const std::string& id, bool* received) override {
    Call call(*this);
    v1::LogsRequest request;
    request.set_id(id);
    request.set_follow(true);
    request.set_offset_bytes(offset_);
    const auto reader = jobs().Logs(call.context(), request);
    v1::LogChunk chunk;
    while (reader->Read(&chunk)) {
      *received = true;
      offset_ =
          chunk.offset_bytes() + static_cast<int64_t>(chunk.data().size());
      shared_.Push(top::LogData{id, std::move(*chunk.mutable_data())},
                   broken());
      chunk.Clear();
    }
    return reader->Finish();
  }

  void GiveUp(const std::string& id, const grpc::Status& status) override {
    shared_.Push(top::LogEnded{id, Why(status)}, broken());
  }

  Shared& shared_;
  int64_t offset_ = 0;
};

// Cancels one job after another.
class TopFeed::Cancels : public Caller {
 public:
  Cancels(const Address& address, Shared* shared, Poll* poll)
      : Caller(address), shared_(*shared), poll_(*poll) {
    Start([this] { Run(); });
  }

  void Add(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    ids_.push_back(id);
  }
  void End() {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

 private:
  void Run() {
    while (true) {
      std::string id;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(
            +[](Cancels* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(c->mutex_) {
              return c->ended_ || !c->ids_.empty();
            },
            this));
        if (ended_) return;
        id = ids_.front();
        ids_.pop_front();
      }
      shared_.Push(CancelOne(id), broken());
      poll_.ListSoon();
    }
  }

  top::Cancelled CancelOne(const std::string& id) {
    Call call(*this);
    v1::CancelRequest request;
    request.set_id(id);
    v1::Job job;
    const grpc::Status status = jobs().Cancel(call.hurried(), request, &job);
    if (!status.ok()) {
      // A daemon that has just started again is found by a new connection.
      console().daemon.Reset();
      return {false,
              absl::StrCat("Job ", id, " was not cancelled: ", Why(status))};
    }
    if (job.state() == v1::JOB_STATE_CANCELLED) {
      return {true, absl::StrCat("Job ", id, " is CANCELLED.")};
    }
    if (IsFinal(job.state())) {
      return {false, absl::StrCat("Job ", id, " had ended before: ",
                                  StateName(job.state()), ".")};
    }
    return {true, absl::StrCat("Job ", id, " is being cancelled.")};
  }

  Shared& shared_;
  Poll& poll_;
  absl::Mutex mutex_;
  std::deque<std::string> ids_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

TopFeed::TopFeed(const Address& address, const base::Clock& clock,
                 std::function<void()> wake)
    : shared_(std::make_unique<Shared>(std::move(wake))),
      poll_(std::make_unique<Poll>(address, clock, shared_.get())),
      events_(std::make_unique<Events>(address, shared_.get())),
      log_(std::make_unique<Log>(address, shared_.get())),
      cancels_(std::make_unique<Cancels>(address, shared_.get(), poll_.get())) {
}

TopFeed::~TopFeed() {
  shared_->Stop();
  cancels_->End();
  Caller* const callers[] = {poll_.get(), events_.get(), log_.get(),
                             cancels_.get()};
  for (Caller* caller : callers) caller->Break(true);
  for (Caller* caller : callers) caller->Join();
}

std::vector<top::Update> TopFeed::Take() { return shared_->Take(); }
void TopFeed::ShowJob(const std::string& id) { events_->Follow(id); }
void TopFeed::ShowLog(const std::string& id) { log_->Follow(id); }
void TopFeed::Cancel(const std::string& id) { cancels_->Add(id); }

}  // namespace mpsd::client
