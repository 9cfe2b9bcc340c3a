// SPDX-License-Identifier: Apache-2.0
// What mpsd-worker does other than run a job, a file for each: gates.cc,
// selftest.cc, plan.cc, merge.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>

#include "core/plan/facts.h"
#include "core/selftest/checks.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::worker {

// Runs mpsd-worker --gates: reports what torch and the machine have, for mpsd's
// doctor. Prints two JSON objects, a line each, so that a device whose product
// ends the process leaves the first line:
//
//   {"worker_version", "protocol_version", "torch_version", "built_against",
//    "backends": [{"name", "built", "available", "device", "problem"}],
//    "environment": {NAME: VALUE}}
//   {"matmul": {"asked_device", "result_device", "right", "seconds"}}
//
// Returns the exit code: 0 if both were printed, independent of their contents;
// 1 if the product threw.
int RunGates(std::ostream& out, std::ostream& err);

// The version of torch in the text of at::show_config(); "" if the text has
// none.
std::string TorchVersionIn(std::string_view config);

// The operands of the product on the CPU, integers in fp32, and whether
// `product`, on the CPU, is theirs: exactly, since no sum reaches 2^24.
at::Tensor LeftOperand();
at::Tensor RightOperand();
bool IsRightProduct(const at::Tensor& product);

struct SelftestOptions {
  // "auto" is the machine's accelerator; without one nothing is tested.
  std::string device = "auto";  // or "mps", "cuda", "cpu"
  // The file of the verdict; empty: in the cache folder.
  std::filesystem::path verdict;
  std::filesystem::path job;  // job whose sizes are tested, or empty
  bool force = false;         // ignores a stored verdict
};

// Runs mpsd-worker --selftest: compares the device's kernels with the CPU's,
// prints a table and stores the verdict. If a stored verdict of the same
// device, system, torch, checks and sizes has passed, prints that one without a
// test. Returns the exit code: 0 correct, 1 incorrect, 2 invalid input or no
// such device.
int RunSelftest(const SelftestOptions& options, std::ostream& out,
                std::ostream& err);

// The sizes at which a job trains a model. A job without texts counts an
// image's tokens.
selftest::Sizes SizesOf(const spec::TrainSpec& spec,
                        const spec::ModelConfig& config);

// The rates that this machine's CPU attains now: the best of a few products in
// fp32 and bf16 and of a few passes over memory beyond the caches. Takes about
// half a second of all cores.
plan::Rates MeasureCpu();

// The arguments of mpsd-worker --plan.
struct PlanArguments {
  std::string job;    // job.json, its paths relative to itself
  std::string facts;  // file of plan::ParseFacts; empty: no facts
};

// The facts in a file of plan::ParseFacts; those of no file are unknown.
absl::StatusOr<plan::Facts> ReadFacts(const std::string& path);

// Runs mpsd-worker --plan: reads the job's data and its model's files but no
// weights, opens no device, and computes what the job would need. For a job on
// a CUDA card, the card's name and memory reported by the driver override the
// facts. Prints JSON lines on `out`: PlanEvents of proto/mpsd/v1/plan.proto, a
// "stage" each and finally a "plan", which only has the "warnings" if the facts
// ask for a check of the data; or, if there is no plan, {"error":
// {"code": "INVALID_ARGUMENT", "message": …}}. Human-readable text goes to
// `err`. Keeps tokenized data in the cache, where a run finds them. Returns the
// exit code: 0 for a plan, whether the job fits or not; 1 for none.
int RunPlan(const PlanArguments& arguments, std::ostream& out,
            std::ostream& err);

// The arguments of mpsd-worker --merge.
struct MergeArguments {
  std::string adapter;  // a PEFT folder
  std::string model;    // folder or id; empty: the one in the adapter
  std::string out;
  std::string dtype;  // "float32", "bfloat16", "float16"; empty: the model's
  std::string max_shard_size = "5GB";
  // As of PlanArguments, from mpsd, whose jobs need the memory: less of the
  // model is compared, and no file is read outside the facts' roots.
  std::string facts = {};
  // "merged"; "mlx-adapter", of merge::WriteMlxAdapter; or "gguf-f16",
  // "gguf-bf16", "gguf-q8_0": gguf::Write's file of the merged model, or of
  // `model` itself without an adapter, and a Modelfile for Ollama.
  std::string format = "merged";
};

// Runs mpsd-worker --merge (core/lora). Returns the exit code: 0 done, 1
// failed, 2 invalid input.
int RunMerge(const MergeArguments& arguments, std::ostream& out,
             std::ostream& err);

}  // namespace mpsd::worker
