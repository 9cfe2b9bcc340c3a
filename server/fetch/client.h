// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_FETCH_CLIENT_H_
#define MPSD_SERVER_FETCH_CLIENT_H_

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::fetch {

// What a server said, whatever its status.
struct Answer {
  int status = 0;
  // By name in lower case, the last value of each; 64 KiB at most.
  std::map<std::string, std::string> headers;
  std::string body;  // its beginning, where no Sink took the body
  bool cut = false;  // `body` is not the whole
  // The wait that the server asks for (Retry-After); zero: none.
  absl::Duration retry_after;

  // "" where the answer has no such header.
  std::string Header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? std::string() : it->second;
  }
};

struct Request {
  std::string url;
  std::vector<std::string> headers = {};           // "Name: value"
  std::optional<std::string> body = std::nullopt;  // absent: GET, else POST
  size_t max_body = 4096;  // bytes kept of the answer's body
  // Connects to addresses of the public internet alone, whatever the name
  // resolves to, and asks no proxy, which would connect in mpsd's place.
  bool public_only = false;
};

// Gets the bytes of the body of an answer of 200 to 299 as they come, with the
// status and the headers; other bodies are kept in Answer::body. An error ends
// the transfer, and is what Run returns.
using Sink =
    std::function<absl::Status(const Answer& head, std::string_view bytes)>;

// Asks HTTP servers, a request at a time, and keeps their connections for the
// next one. The only user of libcurl. Redirects are not followed. One thread at
// a time, but for Interrupt.
class Client {
 public:
  struct Options {
    std::filesystem::path ca_file;  // empty: the system's certificates
    absl::Duration connect_timeout = absl::Seconds(5);
    // From the look-up of the name to the answer's last byte.
    absl::Duration timeout = absl::InfiniteDuration();
    // A transfer that brings less than 100 bytes a second for so long is
    // broken.
    absl::Duration stall = absl::InfiniteDuration();
  };

  explicit Client(Options options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Unavailable where no answer comes, or not the whole of it; PermissionDenied
  // where `public_only` forbids the address; Cancelled after Interrupt; the
  // sink's error. The messages name no part of the URL but its host.
  absl::StatusOr<Answer> Run(const Request& request, const Sink& sink = {});

  // Makes a Run under way, and each later one, return Cancelled at once. Any
  // thread.
  void Interrupt();

 private:
  struct Transfer;
  void Prepare(Transfer& transfer) const;
  // Runs the transfer to its end; false where Interrupt came before.
  bool Perform(Transfer& transfer);

  const Options options_;
  std::atomic<bool> interrupted_ = false;
  void* const multi_;  // CURLM*
};

}  // namespace mpsd::fetch

#endif  // MPSD_SERVER_FETCH_CLIENT_H_
