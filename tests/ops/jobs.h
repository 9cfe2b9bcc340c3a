// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/selftest/checks.h"
#include "nlohmann/json.hpp"
#include "tests/ops/recorder.h"

// Jobs of every kind over tiny models on the fake MPS, what an optimizer step
// of each may cost (budget.txt, written with `ninja update_budget` and read by
// every run of the tests), and what the self-test calls.
namespace mpsd::ops {

// A model folder with random weights in fp32 and, except for images, the
// golden tokenizer.
void WriteModel(const std::filesystem::path& folder,
                const nlohmann::json& config);

// A decoder's folder whose bf16 weights are a hole in the file: any size costs
// nothing as long as it is not read.
void WriteHollowDecoder(const std::filesystem::path& folder,
                        const nlohmann::json& config);

// A job as users write it, over a tiny model: what it is of, and how it differs
// from its task's plain one.
struct Configuration {
  std::string name;    // "causal_lm_llama3_lora"
  std::string family;  // a folder of tests/golden
  std::string model;   // merge patch of its config.json
  std::string job;     // merge patch of the task's job.json
};

// "CAUSAL_LM", "SEQ_CLS" or "IMAGE_CLS".
std::vector<Configuration> Configurations(const std::string& task);

// What a run asked of the fake MPS: parts are "step", "evaluation",
// "checkpoint", and "begin" and "end" around them.
struct Recording {
  std::vector<RecordedPart> parts;
  std::map<std::string, int64_t> missing;
  std::set<std::string> faults;
  std::vector<double> losses;  // of the steps
  int64_t max_length = 0;      // of the job

  std::vector<const RecordedPart*> named(const std::string& name) const;
};

// Runs the job through train::Run on `device` ("mps", "cpu"): six steps,
// evaluations, a checkpoint, its end; from then on again, which reads the
// checkpoint. A run is made once a process and kept.
const Recording& RecordingOf(const std::string& task,
                             const Configuration& configuration,
                             const std::string& device = "mps");

// Of all optimizer steps of a run.
struct Cost {
  int64_t kernels = 0;  // calls, all steps
  int64_t bytes = 0;    // of the tensors made, all steps
  int64_t peak = 0;     // highest of a step, above what lives between steps
  int64_t uploads = 0;  // most of a step
  int64_t syncs = 0;    // most of a step
  int64_t shapes = 0;   // distinct calls by shape: graphs that MPS compiles
  bool operator==(const Cost&) const = default;
};

Cost CostOf(const Recording& recording);

using Budget = std::map<std::string, Cost>;

// A line each: name kernels bytes peak uploads syncs shapes. Absent for a line
// that is not so.
std::optional<Budget> ParseBudget(std::string_view text);
std::string ToText(const Budget& budget);

// Which numbers of `cost` are above those of `budget`: "kernels 12, budget 10".
std::vector<std::string> Excess(const Cost& cost, const Cost& budget);

// Fails the test where the configuration has no budget or needs more, says
// where it needs less. With MPSD_UPDATE_BUDGET set writes it instead.
void CheckBudget(const std::string& name, const Cost& cost);

// A check of the self-test, and what it called on the fake MPS.
struct RunCheck {
  selftest::Check check;
  std::set<std::string> operators;   // typed names
  std::set<std::string> signatures;  // with shapes
  int64_t kernels = 0;               // calls
  double seconds = 0;
  std::string failure;  // its row of the table, or ""
};

// The whole self-test at small sizes on the fake MPS; run once a process.
const std::vector<RunCheck>& SelftestRun();

// All operators that it calls.
const std::set<std::string>& RunBySelftest();

}  // namespace mpsd::ops
