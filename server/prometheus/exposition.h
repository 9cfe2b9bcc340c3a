// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_EXPOSITION_H_
#define MPSD_SERVER_PROMETHEUS_EXPOSITION_H_

#include <prometheus/collectable.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
}

namespace mpsd::prometheus {

// Serves http://ADDRESS/metrics until the object is destroyed.
class Exposition {
 public:
  // `address`: HOST:PORT; port 0 takes a free one. InvalidArgument for anything
  // else, Unavailable when it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Exposition>> Start(
      const std::string& address,
      std::shared_ptr<::prometheus::Collectable> metrics);
  ~Exposition();

  // The address with the real port.
  const std::string& address() const { return address_; }

 private:
  Exposition(std::string address,
             std::shared_ptr<::prometheus::Collectable> metrics,
             std::unique_ptr<::prometheus::Exposer> exposer);

  const std::string address_;
  const std::shared_ptr<::prometheus::Collectable> exported_metrics_;
  const std::unique_ptr<::prometheus::Exposer> exposer_;
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_EXPOSITION_H_
