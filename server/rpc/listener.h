// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

// The sockets on which mpsd is reached: their addresses, the thread that
// accepts connections, and whose they are.
namespace mpsd::listener {

// The path of a unix socket: "/run/mpsd.sock" for "unix:/run/mpsd.sock". Empty
// for other addresses.
std::string SocketPath(const std::string& address);

// Opens nothing. InvalidArgument for an address that no socket can listen on:
// no host or port, a socket path too long for the system, or a path of
// something other than a socket.
absl::Status CheckListenAddress(const std::string& address);

// The host of HOST:PORT, without the brackets of an IPv6 address.
std::string HostOf(const std::string& address);

// Whether only programs of this machine can connect to HOST:PORT: the host is
// localhost, in 127.0.0.0/8 or ::1. Queries no name server.
bool IsLoopback(const std::string& address);

// `address` with port 0 replaced by the real port.
std::string BoundAddress(const std::string& address, int port);

// The process at the other end of a unix socket, as the kernel recorded it when
// the process connected.
struct Peer {
  uid_t uid = 0;
  pid_t pid = 0;  // 0: unknown
};

// nullopt if the kernel knows none, as for a connection to a port.
std::optional<Peer> PeerOf(int fd);

// An accepted connection.
struct Accepted {
  int socket = -1;  // the listening socket
  int fd = -1;      // the connection: non-blocking, closed on exec
  // Who connected to a unix socket; nullopt for a port.
  std::optional<Peer> peer;
};

// Whose connection it is, as bounds for each client count: an IPv4 address, or
// an IPv6 network, in which a machine has any number of addresses, but on a
// link, which neighbours share, one address. Empty for a unix socket.
std::string NetworkOf(int fd);

// The listening sockets and the thread that accepts connections. The thread
// continues after any error of accept; if descriptors or memory run out, it
// waits and tries again. Start and Stop are called by one thread.
class Listener {
  class Connections;

 public:
  // A call's wait for what its client sends, until it is destroyed.
  class Wait {
   public:
    // `name`: the client's, "" over a unix socket; `start`: as
    // Connections::Begin or BeginLocal returned it.
    Wait(Connections& connections, std::string name, int64_t start)
        : connections_(connections), name_(std::move(name)), start_(start) {}
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // A message of so many bytes came; the call waits for another.
    void Came(size_t bytes);

   private:
    Connections& connections_;
    const std::string name_;
    int64_t start_;
  };

  struct Options {
    // "unix:/path" or "HOST:PORT", with port 0 for a free port.
    // CheckListenAddress passed for each.
    std::vector<std::string> addresses;
    // The listener closes a connection at once if its descriptor is this number
    // or above. The system assigns the lowest free number, so the numbers above
    // stay free for files and workers. A connection from this process itself is
    // kept all the same. Connections to ports only get the numbers below three
    // quarters of it, so that strangers who fill a port leave the unix sockets
    // open.
    int max_descriptor = 1 << 30;
    std::function<void(const std::string&)> log;
    // The group whose members may use the unix sockets, too (0660); nullopt:
    // only their owner (0600).
    std::optional<gid_t> socket_group = {};
    // A connection to a port ends after this time, or 1 MiB, unless Known was
    // called for it. Of those for which it was not, one address has at most a
    // sixteenth of max_descriptor, and at most 256, and of the others one user
    // as many; the oldest makes room for a new one. Infinite: none of this.
    absl::Duration stranger_age = absl::InfiniteDuration();
  };

  // Binds and listens, but does not accept yet. Replaces a socket at the path
  // if it is this user's own and no program listens on it. Unavailable, naming
  // the address, if an address is not available, or if the socket's group
  // cannot be set.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(Options options);
  ~Listener();  // calls Stop()
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The addresses for clients, with the real ports.
  const std::vector<std::string>& addresses() const { return bound_; }

  // Gets every connection on the listener's thread, and owns its descriptor.
  using Take = std::function<void(const Accepted&)>;
  void Start(Take take);
  // The client at this address and port has proved that it is `user`. On any
  // thread.
  void Known(std::string_view host, std::string_view port,
             const std::string& user, const std::string& credential);
  // The connections that were last known by this credential are strangers'
  // again, from now on. On any thread.
  void Forget(const std::string& credential);
  // A call of this client begins. gRPC keeps what comes of a message, however
  // long it is, until it is whole: if those of a user take more than 40 MiB,
  // the connection with the most of it ends. Null if nothing is counted. The
  // listener must outlive the result. On any thread.
  std::unique_ptr<Wait> Await(std::string_view host, std::string_view port);
  // The same for a call of `user` over a unix socket. No system counts what
  // comes over such a connection: if the heap grows by more than 112 MiB while
  // calls wait, `cancel` runs, on any thread, for those of the user with the
  // most who have waited for 50 ms. May outlive the result.
  std::unique_ptr<Wait> AwaitLocal(const std::string& user,
                                   std::function<void()> cancel);
  // Stops accepting and removes the sockets that it made, but no socket that
  // has replaced one of them. May be repeated.
  void Stop();

 private:
  explicit Listener(Options options);
  // A unix socket's file, with its identity.
  struct SocketFile {
    std::string path;
    dev_t device;
    ino_t inode;
  };

  absl::Status Listen(const std::string& address);
  void Run();
  // False if accept must wait for descriptors or memory.
  bool AcceptAll(int socket);
  // Why the accepted connection must be closed, or "".
  std::string Refusal(int fd, const std::optional<Peer>& peer);
  void Complain(const std::string& line);

  const Options options_;
  const std::unique_ptr<Connections> connections_;  // null: not counted
  std::vector<std::string> bound_;
  std::vector<SocketFile> files_;
  std::vector<int> sockets_;
  int wake_[2] = {-1, -1};  // a pipe
  std::atomic<bool> stops_ = false;
  Take take_;
  absl::Duration complained_ = -absl::InfiniteDuration();  // monotonic
  std::thread thread_;
};

}  // namespace mpsd::listener
