// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SWEEP_GRID_H_
#define MPSD_CLIENT_SWEEP_GRID_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/command_line.h"
#include "client/console.h"
#include "client/study.h"

namespace mpsd::client {

// `mpsctl sweep JOB --grid …` and `--random N …`.
struct GridArguments {
  std::vector<std::string> grid;
  std::vector<std::string> random;  // the number, and then the parameters
  int64_t seed = 0;
  int32_t eta = 0;
  std::vector<int64_t> rungs;
  std::string metric;
  std::optional<bool> greater_is_better;
  std::string name, idempotency_key;
  // Files to write, "": none; --svg and --csv belong to the verb.
  std::string svg, csv;
  bool hold = false;
};

// Adds the options to `verb`, which has those of DeclareStudy.
void DeclareGrid(Command& verb, GridArguments* arguments);

// Whether the command line asks for a sweep of jobs.
bool GridAsked(const GridArguments& arguments);

// Uploads the job's files, queues the sweep and, unless it is to be detached,
// follows it to its end, shows its ranking and writes the files that were asked
// for. kOk where a child has succeeded.
ExitCode RunGrid(const Console& console, const StudyArguments& job,
                 const GridArguments& arguments);

// Writes the picture and the table to the files that are named, if any. Prints
// what fails.
ExitCode WriteSweepFiles(const Console& console, const v1::Sweep& sweep,
                         const std::string& svg, const std::string& csv);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SWEEP_GRID_H_
