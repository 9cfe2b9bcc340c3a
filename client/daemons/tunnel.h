// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::ssh {

// A socket of this machine that is forwarded to the daemon's socket of
// ssh://[USER@]HOST[:PORT][/PATH]: one `ssh -N -L` of the system's own, which
// ends with this program, even if that is killed. PATH is the socket or its
// folder; without it the host is asked for it (find_socket.sh). Thread-safe.
class Tunnel {
 public:
  using Keep = std::function<void(const std::string&)>;

  // Starts nothing yet. Open reports a wrong `url`. `socket`: where the host's
  // socket was last; `keep` gets its place once the host was asked.
  explicit Tunnel(const std::string& url, std::string socket = "",
                  Keep keep = nullptr);
  ~Tunnel();  // ends ssh
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  // Returns once the socket leads to a daemon; at once if it already does. ssh
  // prompts on the terminal; without one it does not prompt. Errors quote ssh.
  // InvalidArgument: the URL. Unauthenticated: a host key or this account's
  // keys. PermissionDenied: the socket is another account's. Unavailable: host
  // or daemon is unreachable. Internal: no ssh. Cancelled: Break.
  absl::Status Open();
  // Aborts an Open in progress and refuses every later one.
  void Break() { broken_ = true; }
  // What the last Open returned; OK before the first.
  absl::Status status() const;
  // gRPC's name of the socket; unusable before an Open that succeeded.
  std::string target() const;

 private:
  // These require the lock.
  absl::Status Start();
  absl::Status Find();
  absl::Status Forward();
  // Runs ssh with these shell words until it ends or `ready` holds.
  absl::Status Run(const std::string& words, const std::string& input,
                   const std::function<bool()>& ready);
  absl::Status Complaint() const;
  void End();

  std::string host_, path_;  // ssh://[USER@]HOST[:PORT] and /PATH
  std::string socket_;       // at the host; empty: unknown
  const Keep keep_;
  std::atomic<bool> broken_{false};
  mutable absl::Mutex mutex_;
  absl::Status status_;
  std::string folder_;    // of the tunnel's files
  FILE* held_ = nullptr;  // ssh ends with it
};

}  // namespace mpsd::ssh
