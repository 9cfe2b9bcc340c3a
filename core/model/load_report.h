// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_LOAD_REPORT_H_
#define MPSD_CORE_MODEL_LOAD_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/spec/model_config.h"

namespace mpsd::model {

// Which weights a file and a network have in common: what Transformers prints
// as its LOAD REPORT.
struct LoadReport {
  // Names of weights that are in the file but not in the network, except
  // buffers that older versions of Transformers wrote, as in Transformers.
  std::vector<std::string> unused;
  // Names of weights that are in the network but not in the file; they were
  // drawn at random.
  std::vector<std::string> missing;
  // config.json ties the head to the embedding, but the file has both with
  // different values: they were loaded untied.
  bool untied = false;
};

// A sentence for each non-empty member, with a few names at most.
std::vector<std::string> Warnings(const LoadReport& report);

// Whether a tensor of this name is a buffer that older versions of Transformers
// wrote for networks of the family.
bool IsOldBuffer(std::string_view name, spec::Family family);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_LOAD_REPORT_H_
