// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mpsd/v1/record.pb.h"

namespace mpsd::client {

// The record of a training run, with much of what one may have.
inline v1::JobRecord SomeRecord(const std::string& id) {
  v1::JobRecord record;
  record.set_id(id);
  record.set_kind(v1::JOB_KIND_TRAINING);
  record.set_state(v1::JOB_STATE_SUCCEEDED);
  record.set_exit_reason("Done");
  record.set_name("moods");
  record.set_owner("ann");
  record.mutable_end_time()->set_seconds(1767323045);
  record.set_spec_json(R"({"model": "m", "lora": {"r": 4}})");
  record.set_attempt_count(1);
  record.set_eval_loss(1.25);
  record.mutable_environment()->set_torch_version("2.6.0");
  record.mutable_environment()->set_device("mps");
  (*record.mutable_environment()->mutable_variables())["OMP_NUM_THREADS"] = "8";
  (*record.mutable_environment()->mutable_file_systems())["data"] = "nfs4";
  record.mutable_shape()->set_batch_size(4);
  record.mutable_memory()->set_peak_allocated_bytes(4'000'000'000);
  record.mutable_fallbacks()->set_allowed(true);
  (*record.mutable_fallbacks()->mutable_ops())["aten::svd"] = 3;
  v1::DataFile& input = *record.mutable_data()->add_inputs();
  input.set_path("t.jsonl");
  input.set_sha256(std::string(64, 'a'));
  record.mutable_conditions()->add_power_sources("mains");
  record.mutable_conditions()->set_low_power_mode(false);
  record.mutable_conditions()->set_least_battery_ratio(0.85);
  record.mutable_conditions()->add_thermal_levels("nominal");
  record.mutable_conditions()->add_thermal_levels("heavy");
  record.mutable_pauses()->set_count(2);
  record.mutable_pauses()->set_seconds(90);
  (*record.mutable_pauses()->mutable_seconds_by_reason())["battery"] = 90;
  record.mutable_durations()->set_queue_seconds(5);
  record.mutable_durations()->set_steady_step_seconds(0.25);
  record.mutable_durations()->set_round_trip_seconds(0.0213);
  record.add_tags("baseline");
  return record;
}

}  // namespace mpsd::client
