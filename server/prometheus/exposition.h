// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_EXPOSITION_H_
#define MPSD_SERVER_PROMETHEUS_EXPOSITION_H_

#include <prometheus/collectable.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/server.h"
#include "server/prometheus/exemplars.h"

namespace mpsd::prometheus {

// What a scrape shows. All is borrowed and must outlive the Exposition.
struct Sources {
  std::vector<const ::prometheus::Collectable*> metrics;
  const Exemplars& exemplars;
};

// Serves /metrics until the object is destroyed, as OpenMetrics to clients that
// ask for it and else in Prometheus' text format, and says when its certificate
// ends. Thread-safe.
class Exposition {
 public:
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

#endif  // MPSD_SERVER_PROMETHEUS_EXPOSITION_H_
