// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_TUNNEL_H_
#define MPSD_CLIENT_SSH_TUNNEL_H_

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::ssh {

// A socket of this machine that leads to the daemon's socket of
// ssh://[USER@]HOST[:PORT][/PATH]: one `ssh -N -L` of the system's own, which
// ends with this program, even if that is killed. PATH is the socket or its
// folder; without one the host is asked for it (find_socket.sh). Thread-safe.
class Tunnel {
 public:
  using Keep = std::function<void(const std::string&)>;

  // Starts nothing yet. A wrong `url` is what Open answers. `socket`: where the
  // host had the socket before; `keep` gets the place once the host was asked.
  explicit Tunnel(const std::string& url, std::string socket = "",
                  Keep keep = nullptr);
  ~Tunnel();  // ends ssh
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  // Returns once the socket leads to a daemon; at once where it does. ssh asks
  // on the terminal, without one nothing. Errors quote ssh. InvalidArgument:
  // the URL. Unauthenticated: a host key or this account's keys.
  // PermissionDenied: the socket is another account's. Unavailable: host or
  // daemon is out of reach. Internal: no ssh. Cancelled: Break.
  absl::Status Open();
  // Breaks off an Open in progress and refuses every later one.
  void Break() { broken_ = true; }
  // What the last Open returned; OK before the first.
  absl::Status status() const;
  // gRPC's name of the socket; leads nowhere before an Open that succeeded.
  std::string target() const;

 private:
  // All with the lock held.
  absl::Status Start();
  absl::Status Find();
  absl::Status Forward();
  // Runs ssh with these words of a shell until it ends or `ready` holds.
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

#endif  // MPSD_CLIENT_SSH_TUNNEL_H_
