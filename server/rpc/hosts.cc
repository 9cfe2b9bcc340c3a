// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/hosts.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace mpsd::rpc {

absl::Status Barrier::Run(const char* rpc,
                          absl::FunctionRef<absl::Status()> work) const {
  try {
    return work();
  } catch (const std::exception& e) {
    return ReportException(rpc, typeid(e).name());
  } catch (...) {
    return ReportException(rpc, "of a type of its own");
  }
}

// Memory may have run out, so a log line that cannot be made is dropped.
absl::Status Barrier::ReportException(const char* rpc, const char* type) const
    try {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(type, nullptr, nullptr, &failed), &std::free);
  if (log_) {
    log_(
        absl::StrCat(rpc, ": exception ", failed == 0 ? readable.get() : type));
  }
  return absl::InternalError(absl::StrCat(
      rpc,
      " failed with an internal error of mpsd; its log names the exception"));
} catch (...) {
  return absl::Status(absl::StatusCode::kInternal, "");
}

Executor::Executor(int threads) : threads_of_user_(std::max(1, threads - 1)) {
  base::CheckLess(0, threads, "threads");
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Executor::~Executor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Post(const std::string& user, std::function<void()> task) {
  base::Check(task != nullptr, "there is something to run");
  // absl::Mutex itself wakes a thread of Loop: on release it checks whether
  // Ready() holds.
  absl::MutexLock lock(&mutex_);
  Add(user, {std::move(task), 0});
}

bool Executor::TryPost(const std::string& user, std::function<void()> task,
                       size_t bytes, const Room& room) {
  base::Check(task != nullptr, "there is something to run");
  absl::MutexLock lock(&mutex_);
  if (waiting_ >= room.tasks) return false;
  const auto found = users_.find(user);
  if (found != users_.end() && !found->second.waiting.empty() &&
      (found->second.waiting.size() >= room.tasks_of_user ||
       found->second.bytes + bytes > room.bytes_of_user ||
       bytes_ + bytes > room.bytes)) {
    return false;
  }
  Add(user, {std::move(task), bytes});
  return true;
}

void Executor::Add(const std::string& user, Task task) {
  const auto at = users_.try_emplace(user).first;
  ++waiting_;
  bytes_ += task.bytes;
  at->second.bytes += task.bytes;
  at->second.waiting.push_back(std::move(task));
  if (at->second.waiting.size() == 1) turns_.push_back(at);
}

Executor::Turns::const_iterator Executor::Next() const {
  return std::find_if(turns_.begin(), turns_.end(), [this](const auto& user) {
    return user->second.running < threads_of_user_;
  });
}

void Executor::Loop() {
  while (true) {
    Task task;
    Turns::value_type user;
    {
      absl::MutexLock lock(&mutex_, absl::Condition(this, &Executor::Ready));
      // A thread leaves only when no task waits: a call whose task never ran
      // would never be finished.
      if (turns_.empty()) return;
      const auto next = Next();
      user = *next;
      turns_.erase(next);
      task = std::move(user->second.waiting.front());
      user->second.waiting.pop_front();
      user->second.bytes -= task.bytes;
      bytes_ -= task.bytes;
      --waiting_;
      ++user->second.running;
      if (!user->second.waiting.empty()) turns_.push_back(user);
    }
    // The task runs and is destroyed without the lock: a task may post the next
    // one, or hold the last pointer to a stream.
    task.run();
    task.run = nullptr;
    absl::MutexLock lock(&mutex_);
    const bool idle = --user->second.running == 0;
    if (idle && user->second.waiting.empty()) users_.erase(user);
  }
}

namespace {

absl::Status Stopping() { return absl::UnavailableError("mpsd is stopping"); }

absl::Status Full(int streams, const char* whose) {
  return absl::UnavailableError(
      absl::StrCat(streams, " such streams", whose, " are under way",
                   " already: try again when one has ended"));
}

}  // namespace

absl::Status StreamHost::Add(ClosableStream& stream,
                             const access::Caller& caller) {
  absl::MutexLock lock(&mutex_);
  if (static_cast<int>(streams_.size()) >= limits_.streams) {
    return Full(limits_.streams, "");
  }
  int& of_user = of_user_[caller.user];
  if (of_user >= limits_.of_a_user) return Full(limits_.of_a_user, " of yours");
  ++of_user;
  streams_[&stream] = {caller.user, caller.credential};
  // CloseAll has passed and does not come again, and Shutdown would use up its
  // whole grace on this stream.
  if (closed_) stream.Close(Stopping());
  return absl::OkStatus();
}

void StreamHost::Remove(ClosableStream& stream) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(&stream);
  if (found == streams_.end()) return;
  const auto of_user = of_user_.find(found->second.user);
  base::Check(of_user != of_user_.end(), "a stream's user is counted");
  if (--of_user->second == 0) of_user_.erase(of_user);
  streams_.erase(found);
}

void StreamHost::CloseAll() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  // CloseAll keeps the lock, so that a stream whose OnDone comes meanwhile
  // waits in Remove and still exists. The host's lock comes before a stream's:
  // a stream calls the host without its own.
  for (auto& [stream, owner] : streams_) stream->Close(Stopping());
}

int StreamHost::CloseOf(const std::string& credential) {
  absl::MutexLock lock(&mutex_);
  int closed = 0;
  for (auto& [stream, owner] : streams_) {
    if (owner.credential != credential) continue;
    stream->Close(absl::UnauthenticatedError(
        absl::StrCat(credential, " is no longer valid: ask an admin")));
    ++closed;
  }
  return closed;
}

void StreamHost::EndIdle(ClosableStream::Clock::time_point now) {
  const auto since = limits_.idle == absl::InfiniteDuration()
                         ? ClosableStream::Clock::time_point::min()
                         : now - absl::ToChronoMilliseconds(limits_.idle);
  absl::MutexLock lock(&mutex_);
  for (auto& [stream, owner] : streams_) stream->EndIfIdle(since);
}

int StreamHost::live() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(streams_.size());
}

}  // namespace mpsd::rpc
