// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DAEMON_FACTS_H_
#define MPSD_SERVER_RPC_DAEMON_FACTS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace mpsd::rpc {

// The fields of DaemonService.Info that do not change while the daemon runs.
// server/daemon.cc fills them in.
struct DaemonFacts {
  std::string version;  // mpsd's version
  std::string state_dir;
  std::string metrics_address;  // empty: off
  bool metrics_tls = false;
  std::string page_address;  // empty: off
  absl::Time start_time;
  int64_t schema_version = 0;    // JobStore::schema_version()
  int32_t protocol_version = 0;  // wire::kProtocolVersion
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DAEMON_FACTS_H_
