// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_STREAM_NOTE_H_
#define MPSD_SERVER_RPC_STREAM_NOTE_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status_macros.h"
#include "server/access/rules.h"
#include "server/rpc/gate.h"
#include "server/rpc/stream_host.h"

namespace mpsd::rpc {

// A stream's entry in the audit, from its first message to its end. `gate` and
// `host` must outlive the note.
class StreamNote {
 public:
  StreamNote(const Gate& gate, StreamHost& host) : gate_(gate), host_(host) {}

  // Calls the gate on its first call; one thread at a time calls it. The stream
  // continues if this is OK.
  absl::Status BeginOnce(const Asked& asked, const access::Rights& rights) {
    if (begun_) return absl::OkStatus();
    ASSIGN_OR_RETURN(int64_t entry, gate_.Begin(asked, rights));
    begun_ = true;
    absl::MutexLock lock(&mutex_);
    entry_ = entry;
    return absl::OkStatus();
  }

  // `ended`: the client's status. Never blocks: the audit waits for the store,
  // and this is a gRPC thread.
  void End(const absl::Status& ended) {
    absl::MutexLock lock(&mutex_);
    if (entry_ == 0) return;
    host_.executor().Post(
        [&gate = gate_, entry = entry_, ended] { gate.End(entry, ended, ""); });
  }

 private:
  const Gate& gate_;
  StreamHost& host_;
  bool begun_ = false;
  absl::Mutex mutex_;
  int64_t entry_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_STREAM_NOTE_H_
