// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mpsd::client {

// The reference of job.json in Markdown, made from spec::JobSchema(): a table
// for the top level, then one per section, each row with a field's name, type,
// default and meaning. client/README.md contains the reference, and a test
// compares the two.
std::string JobReference();

// The values that a field may have, in words: "integer >= 1", "string or list
// of strings". null is omitted.
std::string TypeText(const nlohmann::ordered_json& schema);

}  // namespace mpsd::client
