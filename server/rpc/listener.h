// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_LISTENER_H_
#define MPSD_SERVER_RPC_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::rpc {

// The sockets that clients connect to and the thread that accepts them. It goes
// on whatever accept says: where descriptors or memory run out, it waits until
// there are some again. Start and Stop are called by one thread.
class Listener {
 public:
  struct Options {
    // "unix:/path" or "HOST:PORT", port 0 for a free one. CheckListenAddress
    // passed.
    std::vector<std::string> addresses;
    // A connection whose descriptor is this number or above is closed at once:
    // the system gives the lowest free number, so that those above stay free
    // for files and workers. A connection of this process itself has a place
    // nevertheless.
    int max_descriptor = 1 << 30;
    std::function<void(const std::string&)> log;
  };

  // Binds and listens; nobody is accepted yet. A unix socket is for its owner
  // alone (0600), and a stale one is replaced. Unavailable for an address that
  // cannot be had, naming it.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(Options options);
  ~Listener();  // Stop()
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // What clients connect to, ports filled in.
  const std::vector<std::string>& addresses() const { return bound_; }

  // Gives every connection, non-blocking, to `take`, which owns it, with the
  // socket that it came through.
  using Take = std::function<void(int socket, int fd)>;
  void Start(Take take);
  // Takes no more connections; the sockets are gone. Harmless to repeat.
  void Stop();

 private:
  explicit Listener(Options options) : options_(std::move(options)) {}
  absl::Status Listen(const std::string& address);
  void Run();
  // False where accept has to wait for descriptors or memory.
  bool AcceptAll(int socket);
  void Complain(const std::string& line);

  const Options options_;
  std::vector<std::string> bound_;
  std::vector<std::string> paths_;  // of unix sockets
  std::vector<int> sockets_;
  int wake_[2] = {-1, -1};  // a pipe; Stop closes its writing end
  Take take_;
  absl::Time complained_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_LISTENER_H_
