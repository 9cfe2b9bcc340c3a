// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CLONE_H_
#define MPSD_CLIENT_CLONE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// `spec_json` with each "FIELD=VALUE" of `set` added and each FIELD of `unset`
// removed. FIELD is a path, "training.learning_rate"; VALUE is JSON or else
// plain text. InvalidArgument names what cannot be done; whether job.json has
// such a field is not checked.
absl::StatusOr<std::string> EditSpec(const std::string& spec_json,
                                     const std::vector<std::string>& set,
                                     const std::vector<std::string>& unset);

// The spec as mpsd reads it: with every default, and paths as written. Text
// that is not a valid spec, as of another release, is returned unchanged.
std::string WithDefaults(const std::string& spec_json);

// A field of two specs, as JSON; "" if a spec does not have it.
struct FieldChange {
  std::string field;  // "training.learning_rate"
  std::string a, b;
  bool operator==(const FieldChange&) const = default;
};

// The fields in which two JSON objects differ: those of `a`, sorted, then those
// that only `b` has.
std::vector<FieldChange> CompareSpecs(const std::string& a,
                                      const std::string& b);

// Removes from request.inputs what the spec no longer names: mpsd refuses
// unused inputs. An image job keeps every input, because only its rows name
// them.
void DropUnusedInputs(v1::SubmitRequest& request);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CLONE_H_
