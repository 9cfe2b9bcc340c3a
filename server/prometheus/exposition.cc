// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/exposition.h"

#include <prometheus/exposer.h>

#include <exception>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace mpsd::prometheus {
namespace {

// The host and its colon; empty when `address` is not HOST:PORT.
std::string HostOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  int32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return "";
  }
  return address.substr(0, colon + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exposition>> Exposition::Start(
    const std::string& address,
    std::shared_ptr<::prometheus::Collectable> metrics) {
  const std::string host = HostOf(address);
  if (host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics address '", address,
                     "': expected HOST:PORT, as in 127.0.0.1:9464, or off"));
  }
  try {
    auto exposer = std::make_unique<::prometheus::Exposer>(address, 2);
    exposer->RegisterCollectable(metrics);
    const std::string bound =
        absl::StrCat(host, exposer->GetListeningPorts().front());
    return std::unique_ptr<Exposition>(
        new Exposition(bound, std::move(metrics), std::move(exposer)));
  } catch (const std::exception& e) {
    return absl::UnavailableError(absl::StrCat(
        "cannot serve metrics on ", address, " (", e.what(),
        "): the port may be taken; choose another --metrics-address, or off"));
  }
}

Exposition::Exposition(std::string address,
                       std::shared_ptr<::prometheus::Collectable> metrics,
                       std::unique_ptr<::prometheus::Exposer> exposer)
    : address_(std::move(address)),
      exported_metrics_(std::move(metrics)),
      exposer_(std::move(exposer)) {}

Exposition::~Exposition() = default;

}  // namespace mpsd::prometheus
