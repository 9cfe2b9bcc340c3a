// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_host.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace mpsd::rpc {
namespace {

// "ipv4:10.0.0.1" for "ipv4:10.0.0.1:4711"; each connection has a port of its
// own.
std::string MachineOf(const std::string& peer) {
  return peer.starts_with("ip") ? peer.substr(0, peer.rfind(':')) : peer;
}

absl::Status Full(int streams, const char* where) {
  return absl::UnavailableError(
      absl::StrCat(streams, " such transfers are under way", where,
                   " already: try again when one has ended"));
}

}  // namespace

absl::Status StreamHost::Add(ClosableStream& stream, const std::string& peer) {
  const std::string machine = MachineOf(peer);
  absl::MutexLock lock(&mutex_);
  if (static_cast<int>(streams_.size()) >= limits_.streams) {
    return Full(limits_.streams, "");
  }
  int& of_peer = of_peer_[machine];
  if (of_peer >= limits_.of_a_peer) {
    return Full(limits_.of_a_peer, " from your machine");
  }
  ++of_peer;
  streams_[&stream] = machine;
  // CloseAll has passed and does not come again, and Shutdown would spend its
  // whole grace on this stream.
  if (closed_) stream.Close();
  return absl::OkStatus();
}

void StreamHost::Remove(ClosableStream& stream) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(&stream);
  if (found == streams_.end()) return;
  const auto of_peer = of_peer_.find(found->second);
  base::Check(of_peer != of_peer_.end(), "a stream's machine is counted");
  if (--of_peer->second == 0) of_peer_.erase(of_peer);
  streams_.erase(found);
}

void StreamHost::CloseAll() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  // CloseAll keeps the lock, so that a stream whose OnDone comes meanwhile
  // waits in Remove and still exists. The host's lock comes before a stream's:
  // a stream calls the host without its own.
  for (auto& [stream, machine] : streams_) stream->Close();
}

void StreamHost::EndIdle(ClosableStream::Clock::time_point now) {
  if (limits_.idle == absl::InfiniteDuration()) return;
  const auto since = now - absl::ToChronoMilliseconds(limits_.idle);
  absl::MutexLock lock(&mutex_);
  for (auto& [stream, machine] : streams_) stream->EndIfIdle(since);
}

int StreamHost::live() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(streams_.size());
}

}  // namespace mpsd::rpc
