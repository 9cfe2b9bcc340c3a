// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_studies.h"

namespace mpsd::testing_support {

nlohmann::json FakeStudy(wire::JobKind kind) {
  const nlohmann::json seconds = {{"median", 0.1},
                                  {"p10", 0.09},
                                  {"p90", 0.12},
                                  {"min", 0.08},
                                  {"max", 0.13}};
  switch (kind) {
    case wire::JobKind::kTraining:
      break;
    case wire::JobKind::kProbe:
      return {{"probe",
               {{"device", "cpu"},
                {"warmup_steps", 2},
                {"steps", 8},
                {"step_rows", 2},
                {"micro_batch_rows", 2},
                {"step_seconds", seconds},
                {"tokens_per_second", 1000.0},
                {"rows_per_second", 20.0},
                {"peak_bytes", 3 << 20},
                {"peak_from", "footprint"},
                {"estimate", {{"total_bytes", 3 << 20}}},
                {"estimate_ratio", 1.0},
                {"memory_limit_bytes", 1 << 30}}}};
    case wire::JobKind::kBatchSweep: {
      nlohmann::json points = nlohmann::json::array();
      for (int batch = 1; batch <= 4; batch *= 2) {
        points.push_back({{"batch", batch},
                          {"fits", true},
                          {"peak_bytes", batch << 20},
                          {"step_seconds", seconds},
                          {"tokens_per_second", 1000.0 * batch},
                          {"rows_per_second", 10.0 * batch},
                          {"steps", 6}});
      }
      return {{"batch_sweep",
               {{"device", "cpu"},
                {"points", points},
                {"largest_batch", 4},
                {"knee_batch", 4},
                {"best_tokens_per_second", 4000.0},
                {"peak_from", "footprint"},
                {"ended_by", "rows"},
                {"job_batch", 2}}}};
    }
    case wire::JobKind::kDeviceComparison:
      return {{"device_comparison", {{"device", "cpu"}}}};
    case wire::JobKind::kProfile:
      return {{"profile", {{"device", "cpu"}}}};
    case wire::JobKind::kSmoke: {
      nlohmann::json epochs = nlohmann::json::array();
      for (int epoch = 1; epoch <= 10; ++epoch) {
        epochs.push_back({{"epoch", epoch},
                          {"footprint_bytes", 2 << 20},
                          {"step_seconds", 0.1}});
      }
      return {{"smoke",
               {{"device", "cpu"},
                {"environment",
                 {{"torch_version", "2.11.0-fake"}, {"train_sha256", "abc"}}},
                {"rows", 8},
                {"step_rows", 2},
                {"steps_per_epoch", 4},
                {"epochs", epochs},
                {"step_seconds", seconds},
                {"memory_from", "footprint"},
                {"memory_growth", 0.0}}}};
    }
  }
  return nlohmann::json::object();
}

}  // namespace mpsd::testing_support
