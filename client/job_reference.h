// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_JOB_REFERENCE_H_
#define MPSD_CLIENT_JOB_REFERENCE_H_

#include <nlohmann/json.hpp>
#include <string>

namespace mpsd::client {

// The reference of job.json in Markdown, out of spec::JobSchema(): a table of
// the fields at the top, then one a section, each row with the field's name,
// type, default and meaning. client/README.md holds it, and a test compares
// the two.
std::string JobReference();

// What a field may hold, in words: "integer >= 1", "string or list of strings".
// null is left out.
std::string TypeText(const nlohmann::ordered_json& schema);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_JOB_REFERENCE_H_
