// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "client/command_line.h"
#include "client/console.h"

namespace mpsd::client {

// Runs mpsctl; `args` excludes the program's name. Returns the exit code
// (console.h), which also reports a failed write to `out`. Reads MPSD_SERVER,
// MPSD_STATE_DIR, HOME and USER.
int Run(const std::vector<std::string>& args, std::ostream& out,
        std::ostream& err, const Terminal& terminal);

using Action = std::function<ExitCode(const Console&)>;

// A row of the table of verbs.
struct Verb {
  const char* name;
  const char* help;  // at most 50 characters, for the list of verbs
  // Adds the verb's arguments and options to `verb`, and returns what it does
  // with their values; null for a verb with others below it.
  std::function<Action(Command& verb)> declare;
  const char* examples = "";  // command lines, one to three
  bool calls_daemon = true;
  std::vector<Verb> below = {};
};

// For a verb whose options `declare` adds: they fill the Options of `run`.
template <typename Options>
std::function<Action(Command&)> Takes(void (*declare)(Command& verb, Options&),
                                      ExitCode (*run)(const Options&,
                                                      const Console&)) {
  return [=](Command& verb) -> Action {
    auto options = std::make_shared<Options>();
    declare(verb, *options);
    return [=](const Console& console) { return run(*options, console); };
  };
}

// For a verb without options.
inline std::function<Action(Command&)> TakesNothing(
    ExitCode (*run)(const Console&)) {
  return [=](Command&) -> Action { return run; };
}

// The verbs of each source.
using VerbTable = std::vector<Verb>();
VerbTable AccessVerbs, CompletionVerbs, DownloadVerbs, GenerateVerbs, InfoVerbs,
    InitVerbs, JobsVerbs, ModelVerbs, OfflineVerbs, ShowVerbs, StudyVerbs,
    SubmitVerbs, WatchVerbs;

// The name of a positional argument that is a job: by its id or its name.
inline constexpr char kJobIdName[] = "ID";
// The name of one that is a context's name.
inline constexpr char kContextName[] = "CONTEXT";
// The name of one that is a model's name in mpsd.
inline constexpr char kModelName[] = "MODEL";

}  // namespace mpsd::client
