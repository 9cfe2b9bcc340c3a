// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SWEEP_H_
#define MPSD_CLIENT_SWEEP_H_

#include <cstdint>
#include <string>

#include "client/command_line.h"
#include "client/console.h"
#include "client/study.h"
#include "mpsd/v1/study.pb.h"

// `mpsctl sweep JOB --batch`.

namespace mpsd::client {

struct BatchSweepArguments {
  bool batch = false;  // this sweep is requested
  int32_t first_batch = 0, max_batch = 0, steps = 0, warmup_steps = 0;
  double memory_limit_gb = 0;
  std::string csv;  // a file to write; "": none
};

// Adds --batch and the options that go with it.
void DeclareBatchSweep(Command& verb, BatchSweepArguments* arguments);

ExitCode RunBatchSweep(const Console& console, const StudyArguments& study,
                       const BatchSweepArguments& arguments);

// A table of the batches, above the findings; nothing for another study.
void PrintBatchSweep(const v1::StudyResult& result, const Console& console);

// One line per batch, below a header line.
std::string BatchSweepCsv(const v1::BatchSweepResult& sweep);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SWEEP_H_
