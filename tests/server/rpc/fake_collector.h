// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_COLLECTOR_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_COLLECTOR_H_

#include "server/jobs/collector.h"

namespace mpsd::rpc {

// jobs::Collector out of plain data. One thread at a time.
class FakeCollector final : public jobs::Collector {
 public:
  absl::StatusOr<jobs::CollectionPlan> Plan() override {
    if (!failure.ok()) return failure;
    return plan;
  }
  absl::StatusOr<jobs::CollectionResult> Collect(
      const jobs::Wanted& wanted) override {
    if (!failure.ok()) return failure;
    ++collected;
    was_wanted = jobs::StillWanted(wanted);
    return result;
  }
  jobs::StateBytes Bytes() const override { return bytes; }

  jobs::CollectionPlan plan;
  jobs::CollectionResult result;
  jobs::StateBytes bytes;
  absl::Status failure, was_wanted;
  int collected = 0;
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_COLLECTOR_H_
