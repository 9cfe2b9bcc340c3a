// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_TUNNEL_H_
#define MPSD_CLIENT_SSH_TUNNEL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/ssh/child.h"
#include "client/ssh/descriptor.h"
#include "client/ssh/find_socket.h"
#include "client/ssh/private_folder.h"
#include "client/ssh/server_url.h"

namespace mpsd::ssh {

// A socket of this machine that leads to a daemon's socket behind ssh. One ssh
// of the system's own holds it and ends with this program, even if that is
// killed. Thread-safe.
class Tunnel {
 public:
  // Starts nothing yet. A wrong `url` is what Open answers.
  explicit Tunnel(const std::string& url);
  // Ends ssh.
  ~Tunnel();
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;

  // What ssh writes while it logs in, for a user who sits before a terminal.
  using Show = std::function<void(const std::string&)>;

  // Returns once the socket leads to a daemon; at once where it does and ssh
  // still runs, and for a while after an attempt that failed, whose status it
  // repeats: a host may count refused keys, and several threads ask. ssh asks
  // for a passphrase on the terminal if there is one and StopAsking was not
  // called. Takes as long as the user does, without a terminal at most a
  // minute. An error's first line says what is wrong, the others what to do.
  // InvalidArgument: the URL. Unauthenticated: a host key or this account's
  // keys. PermissionDenied: the socket is another account's, or sshd forwards
  // none. Unavailable: host or daemon is out of reach. Internal: a fault of
  // this machine, no ssh. Cancelled: Break was called.
  absl::Status Open(const Show& show = nullptr);

  // Breaks off an Open in progress and refuses every later one.
  void Break() { broken_ = true; }
  // From now on ssh asks nothing, because the terminal shows something else.
  void StopAsking() { may_ask_ = false; }

  // What the last Open returned; OK before the first.
  absl::Status status() const;
  // gRPC's name of the socket; leads nowhere before an Open that succeeded.
  std::string target() const;

 private:
  absl::Status Start(const Show& show) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StartSession(bool may_ask) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads what the session says until it has found a socket, or not.
  absl::Status AwaitSocket(bool may_ask, const Show& show, FoundSocket* found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Forward(const std::string& socket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Connects once: ssh says only then whether the host lets it.
  absl::Status Try(const FoundSocket& found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NotFound(const FoundSocket& found) const;
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string FileNamed(const char* name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What ssh has written to stderr since the session began, its last 64 KiB.
  std::string Said() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status wrong_url_;
  ServerUrl url_;
  std::atomic<bool> broken_{false};
  std::atomic<bool> may_ask_{true};
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_ ABSL_GUARDED_BY(mutex_);  // attempt, on the clock
  std::unique_ptr<PrivateFolder> folder_ ABSL_GUARDED_BY(mutex_);
  // ssh's standard input, whose end ends the session; its standard output; the
  // file that its stderr goes to.
  Descriptor input_ ABSL_GUARDED_BY(mutex_);
  Descriptor output_ ABSL_GUARDED_BY(mutex_);
  Descriptor errors_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Child> ssh_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_TUNNEL_H_
