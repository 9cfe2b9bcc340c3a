// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_MERGE_H_
#define MPSD_CORE_WORKER_MERGE_H_

#include <ostream>
#include <string>

namespace mpsd::worker {

// The arguments of mpsd-worker --merge.
struct MergeArguments {
  std::string adapter;  // a PEFT folder
  std::string model;    // folder or id; empty: the one in the adapter
  std::string out;
  std::string dtype;  // "float32", "bfloat16", "float16"; empty: the model's
  std::string max_shard_size = "5GB";
};

// Runs mpsd-worker --merge (core/lora). Returns the exit code: 0 done, 1
// failed, 2 invalid input.
int RunMerge(const MergeArguments& arguments, std::ostream& out,
             std::ostream& err);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_MERGE_H_
