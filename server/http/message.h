// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_MESSAGE_H_
#define MPSD_SERVER_HTTP_MESSAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::http {

// The header of a request; a line that the client left out is empty.
struct Request {
  std::string target = "";  // path and query, as the client sent them
  std::string host = "";
  std::string authorization = "";
  std::string accept = "";
  std::string accept_encoding = "";
  std::string method = "GET";  // HEAD is answered as GET, without the body
  std::string content_type = "";
  std::string idempotency_key = "";
  std::string retry_count = "";  // X-Stainless-Retry-Count: OpenAI's clients
                                 // count their tries from 0
  bool has_body = false;
  std::optional<int64_t> content_length = {};  // absent: not announced
  std::string peer = "";  // the client's address; empty on a unix socket
};

// The body of an answer that is too large for the memory. Used by one thread at
// a time, which may wait for a disk.
class Content {
 public:
  virtual ~Content() = default;
  virtual int64_t size_bytes() const = 0;
  // The next bytes, at most `most`; all reads together give size_bytes. After
  // an error the client's connection breaks off, since it was promised more.
  virtual absl::StatusOr<std::string> Read(int64_t most) = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";  // left out of the answer to a HEAD
  std::shared_ptr<Content> content = nullptr;  // in the place of `body`
  // Headers beside those that every answer has (server/http/connection.cc).
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Answers a request; called on several threads at once. The client gets a 500
// where it throws.
using Handler = std::function<Response(const Request&)>;

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_MESSAGE_H_
