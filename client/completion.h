// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_COMPLETION_H_
#define MPSD_CLIENT_COMPLETION_H_

#include <ostream>
#include <string>
#include <vector>

#include "client/command_line.h"
#include "client/connection.h"

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

// A word that may stand where a person types, and what it is, for people; ""
// where the word says it.
struct CompleteWord {
  std::string word;
  std::string about = {};
};

struct CompleteWords {
  // Whether names of files may stand there, too, which the shell knows itself.
  bool files = false;
  // Whether a word goes on: a list with commas, a field before its value.
  bool parts = false;
  std::vector<CompleteWord> words = {};
};

// What may stand at the place: verbs, options, states, jobs of a state that the
// verb takes, models, contexts, columns, fields of job.json and their values.
// Asks the daemon that the line names for jobs and models, for a second at
// most, and never through ssh, which might ask for a passphrase; a daemon that
// does not answer has none. Only words that begin with the place's word, and
// that a shell takes as they are: a model's name is not run.
CompleteWords WordsFor(const Command& program, const CompletePlace& place);

// Answers a shell's script: "files", "parts" or "words" for the last of the
// words that follow the program's name, then a word a line, with what it is
// behind a tab.
void PrintWords(const Command& program, std::vector<std::string> words,
                std::ostream& out);

// The shells that CompletionScript knows.
std::vector<std::string> CompletionShells();

// The completion script for one of CompletionShells(). It hands the words of
// the command line to `mpsctl complete`, which knows all the rest.
std::string CompletionScript(const std::string& shell);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_COMPLETION_H_
