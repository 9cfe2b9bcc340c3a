// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CLONE_H_
#define MPSD_CLIENT_CLONE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// `spec_json` with each "FIELD=VALUE" of `set` put in and each FIELD of `unset`
// taken out. FIELD is a path, "training.learning_rate"; VALUE is JSON, or else
// a text as it stands. InvalidArgument names what cannot be done; whether
// job.json has such a field is not looked at here.
absl::StatusOr<std::string> EditSpec(const std::string& spec_json,
                                     const std::vector<std::string>& set,
                                     const std::vector<std::string>& unset);

// The spec as mpsd reads it: with every default, and paths as written. Where it
// is no spec, as one of another release, the text as it is.
std::string WithDefaults(const std::string& spec_json);

// A field of two specs, as JSON; "" where a spec does not have it.
struct FieldChange {
  std::string field;  // "training.learning_rate"
  std::string a, b;
  bool operator==(const FieldChange&) const = default;
};

// The fields in which two JSON objects differ: those of `a`, sorted, then those
// that only `b` has.
std::vector<FieldChange> CompareSpecs(const std::string& a,
                                      const std::string& b);

// Takes out of request.inputs what the spec names no longer: mpsd refuses an
// input that nobody uses. Of a job of images every input stays, because only
// its rows name them.
void DropUnusedInputs(v1::SubmitRequest& request);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CLONE_H_
