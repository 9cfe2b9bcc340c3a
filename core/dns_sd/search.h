// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DNS_SD_SEARCH_H_
#define MPSD_CORE_DNS_SD_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/dns_sd/library.h"
#include "core/dns_sd/txt_record.h"

namespace mpsd::dns_sd {

// A service as the network tells of it: anybody there may have sent it, so
// every text may hold anything.
struct Service {
  std::string name;  // of the machine, mostly
  std::string host;  // without the dot at its end
  uint16_t port = 0;
  TxtRecord txt;
};

// The daemons that tell of themselves within `patience`, by name, each once, at
// most 64. Unavailable: the system's service does not answer.
absl::StatusOr<std::vector<Service>> Search(const Library& library,
                                            absl::Duration patience);

}  // namespace mpsd::dns_sd

#endif  // MPSD_CORE_DNS_SD_SEARCH_H_
