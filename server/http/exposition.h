// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_EXPOSITION_H_
#define MPSD_SERVER_HTTP_EXPOSITION_H_

#include <prometheus/collectable.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/server.h"

namespace mpsd::prometheus {

// Serves /metrics in Prometheus' text format, including when its certificate
// expires, and "ok" at /healthz, until the object is destroyed. Thread-safe.
class Exposition {
 public:
  // What a scrape shows; borrowed.
  using Sources = std::vector<const ::prometheus::Collectable*>;

  // The errors of http::Server::Open, with the option that helps.
  static absl::StatusOr<std::unique_ptr<Exposition>> Start(
      http::Server::Options options, Sources sources);

  // See http::Server.
  absl::Status Reload() { return server_->Reload(); }
  const std::string& address() const { return server_->address(); }

 private:
  Exposition(Sources sources, std::unique_ptr<http::Server> server)
      : sources_(std::move(sources)), server_(std::move(server)) {}
  http::Response Answer(const http::Request& request) const;

  const Sources sources_;
  const std::unique_ptr<http::Server> server_;
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_HTTP_EXPOSITION_H_
