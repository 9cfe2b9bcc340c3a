// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUN_ARGUMENTS_H_
#define MPSD_CLIENT_RUN_ARGUMENTS_H_

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

// How a Transformers example is run.
struct RunArguments {
  std::string script;  // "run_glue.py"; "" where the text does not say
  std::vector<RunArgument> arguments;  // each name once, the last one's values
  std::vector<std::string> launcher;  // words before the script: "torchrun" …
  std::vector<std::string> strays;    // words that belong to no argument
};

// Reads a command line (see shell_words.h; with or without the program before
// the arguments, which may stand in several lines) or the JSON object that
// HfArgumentParser reads. "-" in a name is "_". Of several commands the first
// that runs a .py counts. InvalidArgument for text that is neither.
absl::StatusOr<RunArguments> ParseRunArguments(std::string_view text);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUN_ARGUMENTS_H_
