// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_COMPLETE_PLACE_H_
#define MPSD_CLIENT_COMPLETE_PLACE_H_

#include <string>
#include <vector>

#include "client/choose_daemon.h"
#include "client/command_line.h"

namespace mpsd::client {

// Where in a command line the word stands that a person is typing.
struct CompletePlace {
  std::string word;  // as far as it is typed
  // The verb, and the verbs above it: "model list". "" before the first one.
  std::string path;
  const Command* verb = nullptr;  // the program where there is no verb
  // Whose value the word is; null where it is none's. For a word without a dash
  // behind a verb, the positional argument.
  const Option* option = nullptr;
  // What the values of `option` begin with, of a word "--option=value".
  std::string before_value;
  std::vector<std::string> arguments;  // positional ones before the word
  DaemonChoice daemon;                 // which daemon the line names
};

// The place of the last of `words`, which follow the program's name. `words`
// has one at least.
CompletePlace FindPlace(const Command& program,
                        const std::vector<std::string>& words);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_COMPLETE_PLACE_H_
