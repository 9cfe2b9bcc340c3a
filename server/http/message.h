// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_MESSAGE_H_
#define MPSD_SERVER_HTTP_MESSAGE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mpsd::http {

// A GET or HEAD; a header that the client left out is empty.
struct Request {
  std::string target = "";  // path and query, as the client sent them
  std::string host = "";
  std::string authorization = "";
  std::string accept = "";
  std::string accept_encoding = "";
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = "";  // left out of the answer to a HEAD
  // Headers beside those that every answer has (server/http/connection.cc).
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Answers a request; called on several threads at once. The client gets a 500
// where it throws.
using Handler = std::function<Response(const Request&)>;

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_MESSAGE_H_
