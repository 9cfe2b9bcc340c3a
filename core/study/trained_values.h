// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_TRAINED_VALUES_H_
#define MPSD_CORE_STUDY_TRAINED_VALUES_H_

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "core/optim/parameters.h"

namespace mpsd::study {

// Calls `visit` with the name and the elements of each parameter, or of its
// gradient, in their order; one at a time is copied from the device.
enum class Part { kValue, kGradient };
using VisitTensor = std::function<void(const std::string& name,
                                       std::span<const float> elements)>;
void VisitTensors(const optim::ParameterSet& parameters, Part part,
                  const VisitTensor& visit);

// Keeps all of them in a file, for a run that comes after this one: a model
// that trains all its weights would not fit into memory twice. Errors of the
// disk name the path.
absl::Status KeepTensors(const std::filesystem::path& file,
                         const optim::ParameterSet& parameters, Part part);

// Calls `visit` with each parameter's elements and those that KeepTensors put
// into `file` under its name, where the file has it in the same size.
using VisitPair =
    std::function<void(const std::string& name, std::span<const float> elements,
                       std::span<const float> kept)>;
absl::Status VisitPairs(const std::filesystem::path& file,
                        const optim::ParameterSet& parameters, Part part,
                        const VisitPair& visit);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_TRAINED_VALUES_H_
