// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/command_line.h"
#include "client/connection.h"

namespace mpsd::client {

// The position in a command line of the word being typed.
struct CompletePlace {
  std::string word;  // as far as it is typed
  // The verb, and the verbs above it: "model list". "" before the first one.
  std::string path;
  const Command* verb = nullptr;  // the program where there is no verb
  // The option whose value the word is; null if it is not one. For a word
  // without a dash after a verb, the positional argument.
  const Option* option = nullptr;
  // The text before the value, of a word "--option=value".
  std::string before_value;
  std::vector<std::string> arguments;  // positional ones before the word
  DaemonChoice daemon;                 // which daemon the line names
};

// The place of the last of `words`, which follow the program's name and are at
// least one.
CompletePlace FindPlace(const Command& program,
                        const std::vector<std::string>& words);

// A word that may be typed there, and a description of it; "" if the word says
// enough.
struct CompleteWord {
  std::string word;
  std::string about = {};
};

struct CompleteWords {
  // Whether file names, which the shell completes itself, are allowed too.
  bool files = false;
  // Whether a word continues: a list with commas, a field before its value.
  bool parts = false;
  std::vector<CompleteWord> words = {};
};

// What may be at the place: verbs, options, states, jobs of a state that the
// verb accepts, models, contexts, columns, fields of job.json and their values.
// Asks the daemon that the line names for jobs and models, for at most a
// second, and never over ssh, which might ask for a passphrase; a daemon that
// does not answer has none. Returns only words that begin with the place's word
// and that a shell takes literally: a model's name is not run.
CompleteWords WordsFor(const Command& program, const CompletePlace& place);

// Answers a shell's script: "files", "parts" or "words" for the last of the
// words that follow the program's name, then a word per line, followed by a tab
// and its description.
void PrintWords(const Command& program, std::vector<std::string> words,
                std::ostream& out);

// The shells that CompletionScript knows.
std::vector<std::string> CompletionShells();

// The completion script for one of CompletionShells(). It passes the words of
// the command line to `mpsctl complete`, which does the rest.
std::string CompletionScript(const std::string& shell);

}  // namespace mpsd::client
