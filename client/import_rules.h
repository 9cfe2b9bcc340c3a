// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_IMPORT_RULES_H_
#define MPSD_CLIENT_IMPORT_RULES_H_

#include <string_view>
#include <vector>

// What the arguments of Transformers' example scripts are in job.json
// (TrainingArguments of transformers 4 and 5; run_glue.py,
// run_classification.py, run_image_classification.py).
namespace mpsd::client {

// One that is a field of the same meaning.
struct FieldRule {
  enum class Kind { kText, kInteger, kNumber, kSwitch };
  std::string_view name;
  std::string_view section;  // "training"
  std::string_view field;
  Kind kind;
};
// Null for a name that is none.
const FieldRule* FindFieldRule(std::string_view name);

// Why one has no equal, or what does the same; "" for a name that is none.
std::string_view WhyNoEqual(std::string_view name);

// Of both kinds; those that client/import_job.cc reads itself are not among
// them.
std::vector<std::string_view> RuleNames();

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_IMPORT_RULES_H_
