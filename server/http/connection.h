// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_CONNECTION_H_
#define MPSD_SERVER_HTTP_CONNECTION_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "server/http/door.h"

namespace boost::asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace boost::asio

namespace mpsd::http {

// How long a client may take. Each limits the whole of its step, however often
// a byte comes or goes.
struct Deadlines {
  absl::Duration handshake = absl::Seconds(10);
  absl::Duration request = absl::Seconds(10);
  // For an answer, and again for each piece of one that is not in memory.
  absl::Duration response = absl::Seconds(30);
  absl::Duration body = absl::Minutes(2);  // for each 256 KiB of a body
  absl::Duration idle = absl::Minutes(5);  // between two requests
};

// One client's connection. Everything happens on the thread that runs the
// io_context. The connection lives while it has something to wait for.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Reply = std::function<void(Begun)>;
  struct Calls {
    // Has to call `reply` once, on the thread of the io_context.
    std::function<void(Request, Reply reply)> answer;
    // Has to call `work` once on a thread that may wait for a disk, unless the
    // server ends before, and then `then` on the thread of the io_context. An
    // exception of `work` makes `failed` true. Null: requests have no bodies,
    // and only GET and HEAD are answered.
    std::function<void(std::function<void()> work,
                       std::function<void(bool failed)> then)>
        run;
    // The connection has closed its descriptor.
    std::function<void(Connection*)> closed;
  };

  virtual ~Connection() = default;
  virtual void Start() = 0;
  // Closes the connection at once.
  virtual void Close() = 0;
  // Since when the client has been waiting with no request under way; nullopt
  // before its first request and while it has one.
  std::optional<absl::Time> idle_since() const { return idle_since_; }

 protected:
  std::optional<absl::Time> idle_since_;
};

// Owns `fd`, a connected socket. `tls` is null for plain HTTP. Null, with `fd`
// closed, where the system refuses the descriptor.
std::shared_ptr<Connection> MakeConnection(
    boost::asio::io_context& io, int fd,
    std::shared_ptr<boost::asio::ssl::context> tls, const Deadlines& deadlines,
    Connection::Calls calls);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_CONNECTION_H_
