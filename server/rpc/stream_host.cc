// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_host.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "server/rpc/origin.h"

namespace mpsd::rpc {
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
