// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_DOOR_H_
#define MPSD_SERVER_HTTP_DOOR_H_

#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "server/http/message.h"

namespace mpsd::http {

// The body of one request as it comes, so that no body is in memory as a whole.
// Used by one thread at a time, which may wait for a disk. Destroyed when the
// request is over, at any point of it where the client goes.
class Body {
 public:
  virtual ~Body() = default;
  // Takes the next bytes. A response is the request's answer: the rest of the
  // body stays unread, and the connection ends.
  virtual std::optional<Response> Take(std::string_view bytes) = 0;
  // The answer to the body, all of which has come.
  virtual Response End() = 0;
};

// How a request begins: with its answer, or with what takes its body.
using Begun = std::variant<Response, std::shared_ptr<Body>>;

// Answers GET, HEAD, POST and DELETE, where a request may have a body.
class Door {
 public:
  virtual ~Door() = default;
  // The header has come, and nothing of the body. Called on several threads at
  // once, which may wait for a disk. An answer to a request with a body leaves
  // the body unread. The client gets a 500 where it throws.
  virtual Begun Begin(const Request& request) = 0;
};

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_DOOR_H_
