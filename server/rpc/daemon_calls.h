// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "mpsd/v1/daemon.pb.h"
#include "server/access/rules.h"
#include "server/jobs/collector.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/gate.h"

namespace mpsd::rpc {

// The fields of DaemonService.Info that do not change while the daemon runs.
// server/daemon.cc fills them in.
struct DaemonFacts {
  std::string version;  // mpsd's version
  std::string state_dir;
  std::vector<std::string> api_addresses;
  bool api_tls = false;         // on ports
  std::string metrics_address;  // empty: off
  bool metrics_tls = false;
  std::string page_address;  // empty: off
  absl::Time start_time;
  int64_t schema_version = 0;    // Database::schema_version()
  int32_t protocol_version = 0;  // wire::kProtocolVersion
  // The device that passed the self-test; "" before that. Null: unknown.
  std::function<std::string()> tested_device = nullptr;
};

// The calls of DaemonService; errors as in the proto.
absl::Status DaemonInfo(jobs::JobReader& reader, const DaemonFacts& facts,
                        v1::InfoResponse& response);
absl::Status PlanCollection(jobs::Collector& collector,
                            const access::Rights& rights,
                            v1::PlanCollectionResponse& response);
absl::Status Collect(jobs::Collector& collector, const Call& call,
                     v1::CollectResponse& response);

}  // namespace mpsd::rpc
