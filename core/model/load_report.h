// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_LOAD_REPORT_H_
#define MPSD_CORE_MODEL_LOAD_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/spec/model_config.h"

namespace mpsd::model {

// How the weights of a file and those of a network came together: what
// Transformers prints as its LOAD REPORT.
struct LoadReport {
  // In the file, and no weight of the network; by name. Buffers that older
  // versions of Transformers wrote are left out, as it does.
  std::vector<std::string> unused;
  // Of the network, and not in the file: they were drawn.
  std::vector<std::string> missing;
  // config.json ties the head to the embedding, and the file has both, of
  // different values: they are not tied.
  bool untied = false;
};

// A sentence for each part that is not empty, a few names at most in it.
std::vector<std::string> Warnings(const LoadReport& report);

// Whether a tensor of this name is such a buffer of a network of the family.
bool IsOldBuffer(std::string_view name, spec::Family family);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_LOAD_REPORT_H_
