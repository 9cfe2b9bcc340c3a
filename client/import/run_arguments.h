// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_IMPORT_RUN_ARGUMENTS_H_
#define MPSD_CLIENT_IMPORT_RUN_ARGUMENTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::client {

// One argument of a training script.
struct RunArgument {
  std::string name;                 // "max_seq_length"
  std::vector<std::string> values;  // none: a switch that is on
};

// A command that runs a Transformers example.
struct RunArguments {
  std::string script;  // "run_glue.py"; "" where the text names none
  std::vector<RunArgument> arguments;  // each name once, the last value wins
  // The words before the script: "torchrun" …
  std::vector<std::string> launcher;
  std::vector<std::string> strays;  // words that belong to no argument
};

// Reads a command line (see shell_words.h; the program's name may be missing,
// and the arguments may span several lines) or the JSON object that
// HfArgumentParser reads. "-" in a name becomes "_". Of several commands the
// first that runs a .py counts. InvalidArgument for any other text.
absl::StatusOr<RunArguments> ParseRunArguments(std::string_view text);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_IMPORT_RUN_ARGUMENTS_H_
