// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/stream_host.h"

namespace mpsd::rpc {

void StreamHost::Add(ClosableStream& stream) {
  absl::MutexLock lock(&mutex_);
  streams_.insert(&stream);
  if (closed_) stream.Close();
}

void StreamHost::Remove(ClosableStream& stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(&stream);
}

void StreamHost::CloseAll() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (ClosableStream* stream : streams_) stream->Close();
}

int StreamHost::live() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(streams_.size());
}

}  // namespace mpsd::rpc
