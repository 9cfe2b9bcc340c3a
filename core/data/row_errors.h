// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/base/text.h"
#include "core/text/tokenizer.h"

// What errors say about a data set's rows.
namespace mpsd::data {

// Whether messages may quote the data of this process's job. False for files
// that were not uploaded with the job: the submitter might not be allowed to
// read them. True until ShowContents sets it, which must happen before any data
// are read.
bool ContentsShown();
void ShowContents(bool shown);

// The text that replaces contents in messages.
inline constexpr char kNotShown[] =
    "not shown, since the data were not uploaded with the job";

// The first few faults of a file's rows, a text that is repeated as "the same";
// only their locations if contents are not shown.
class RowErrors {
 public:
  static constexpr size_t kMax = 5;

  void Add(const std::string& place, const std::string& fault) {
    if (full()) return;
    const bool again = ContentsShown() && !empty() && fault == last_fault_;
    errors_.push_back(base::Cat(place, ": ",
                                !ContentsShown() ? Bad()
                                : again          ? "the same"
                                                 : fault));
    last_fault_ = fault;
  }
  // Adds a fault whose text begins with its line.
  void AddAt(const std::string& file, const std::string& line_and_fault) {
    const size_t line_end = line_and_fault.find(": ");
    const std::string line = line_and_fault.substr(0, line_end);
    const std::string fault = line_end == line_and_fault.npos
                                  ? ""
                                  : line_and_fault.substr(line_end + 2);
    Add(base::Cat(file, ":", line), fault);
  }
  bool full() const { return errors_.size() == kMax; }
  bool empty() const { return errors_.empty(); }

  // InvalidArgument "<place>: <fault>", one a line; OK without faults.
  absl::Status status() const {
    if (errors_.empty()) return absl::OkStatus();
    std::string message = absl::StrJoin(errors_, "\n");
    if (full()) {
      message += base::Cat("\n(reading stopped at ", kMax, " bad rows)");
    }
    return absl::InvalidArgumentError(message);
  }

 private:
  static std::string Bad() {
    return base::Cat("a bad row (the fault is ", kNotShown, ")");
  }

  std::vector<std::string> errors_;
  std::string last_fault_;
};

// Sizes of the tables in which a model looks up tokens. An id beyond a table is
// an exception on the CPU; on a GPU it ends the process or reads arbitrary
// numbers.
struct IdTables {
  int64_t tokens = 0;  // vocab_size; 0: unknown, not checked
  int64_t types = 0;   // type_vocab_size; 0: the model has no such table
};

// The fault of a row's tokens, which names the first token without a table row
// and what to do; "" without a fault.
std::string TokenFault(absl::Span<const int32_t> ids, const IdTables& tables,
                       const text::Tokenizer& tokenizer);
std::string TypeFault(absl::Span<const int32_t> types, const IdTables& tables);

// The padding id: `id` if the model has a table row for it, else 0. Padding is
// masked and never reaches the loss.
int32_t PaddingWithin(int32_t id, const IdTables& tables);

}  // namespace mpsd::data
