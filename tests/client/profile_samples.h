// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_PROFILE_SAMPLES_H_
#define MPSD_TESTS_CLIENT_PROFILE_SAMPLES_H_

#include <string>

#include "mpsd/v1/study.pb.h"

namespace mpsd::client {

// What a profile on a GPU found.
inline v1::StudyResult ProfileSample() {
  v1::StudyResult result;
  result.set_job_id("01KAH0000000000000000000AA");
  result.set_verdict(v1::VERDICT_WARN);
  v1::Finding& finding = *result.add_findings();
  finding.set_name("profile.blocking");
  finding.set_verdict(v1::VERDICT_WARN);
  finding.set_found("the host waits");
  finding.set_advice("report it");
  v1::ProfileResult& profile = *result.mutable_profile();
  profile.set_device("mps");
  profile.set_gradients("explicit");
  profile.add_not_told("the device's own times");
  v1::ProfileSteps& steps = *profile.mutable_steps();
  steps.set_warm_up(10);
  steps.set_plain(20);
  steps.set_profiled(50);
  steps.set_first_seconds(2.5);
  steps.set_warm_up_seconds(0.2);
  steps.set_steady_seconds(0.1);
  steps.set_profiled_seconds(0.11);
  steps.set_overhead_ratio(0.1);
  steps.set_data_wait_share(0.25);
  const auto capture = [&](const char* name, int count, double seconds) {
    v1::ProfileCapture& part = *profile.add_captures();
    part.set_name(name);
    part.set_steps(count);
    part.set_seconds(seconds);
  };
  capture("data", 20, 0.03);
  capture("forward", 5, 0.02);
  capture("step", 20, 0.1);
  const auto block = [&](const char* name, const char* phase, double share) {
    v1::ProfileBlock& row = *profile.add_blocks();
    row.set_name(name);
    row.set_phase(phase);
    row.set_calls(4);
    row.set_share(share);
    row.set_seconds(0.1 * share);
    row.set_operator_seconds(0.09 * share);
  };
  block("attention", "backward", 0.75);
  block("mlp", "forward", 0.2495);
  block("upload", "forward", 0.0005);
  for (int i = 0; i < 20; ++i) {
    v1::ProfileOperator& op = *profile.add_operators();
    op.set_name("aten::op" + std::to_string(i));
    op.set_calls(10);
    op.set_self_seconds(0.001);
    op.set_share(0.05);
    if (i == 0) op.set_device_seconds(0.004);
  }
  v1::ProfileGaps& gaps = *profile.mutable_gaps();
  gaps.set_seconds(0.004);
  gaps.set_share(0.04);
  gaps.set_longest_seconds(0.001);
  gaps.set_longest_block("mlp");
  v1::ProfileWait& wait = *profile.add_waits();
  wait.set_name("aten::_local_scalar_dense");
  wait.set_calls(2);
  wait.set_seconds(0.01);
  wait.set_block("mlp");
  v1::ProfileWait& own = *profile.add_waits();
  own.set_name("read back");
  own.set_calls(1);
  own.set_seconds(0.02);
  own.set_own(true);
  (*profile.mutable_cpu_fallback_ops())["aten::unique\x1b[31m"] = 7;
  profile.mutable_memory()->set_peak_driver_bytes(12'000'000);
  profile.mutable_memory()->set_peak_footprint_bytes(34'000'000);
  v1::ProfileTrace& trace = *profile.mutable_trace();
  trace.set_file("trace.json.gz");
  trace.set_size_bytes(1'200'000);
  trace.set_steps(5);
  return result;
}

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_PROFILE_SAMPLES_H_
