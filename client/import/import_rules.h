// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_IMPORT_IMPORT_RULES_H_
#define MPSD_CLIENT_IMPORT_IMPORT_RULES_H_

#include <string_view>
#include <vector>

// The arguments of Transformers' example scripts in terms of job.json
// (TrainingArguments of transformers 4 and 5; run_glue.py,
// run_classification.py, run_image_classification.py).
namespace mpsd::client {

// An argument for which job.json has a field of the same meaning.
struct FieldRule {
  enum class Kind { kText, kInteger, kNumber, kSwitch };
  std::string_view name;
  std::string_view section;  // "training"
  std::string_view field;
  Kind kind;
};
// The rule for an argument; null for a name without a rule.
const FieldRule* FindFieldRule(std::string_view name);

// Why an argument has no equal, or what does the same; "" for a name that has
// no such text.
std::string_view WhyNoEqual(std::string_view name);

// The names of both kinds. Arguments that client/import/import_job.cc reads
// itself are not among them.
std::vector<std::string_view> RuleNames();

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_IMPORT_IMPORT_RULES_H_
