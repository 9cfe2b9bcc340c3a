// SPDX-License-Identifier: Apache-2.0
#include "client/import/run_arguments.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/import/shell_words.h"
#include "core/base/json_depth.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

bool IsScript(const std::string& word) { return absl::EndsWith(word, ".py"); }

void Set(RunArguments& run, RunArgument argument) {
  auto known = std::find_if(
      run.arguments.begin(), run.arguments.end(),
      [&](const RunArgument& a) { return a.name == argument.name; });
  if (known == run.arguments.end()) {
    run.arguments.push_back(std::move(argument));
  } else {
    known->values = std::move(argument.values);
  }
}

// Reads the words from `begin` on as arguments.
void ReadWords(const Words& words, size_t begin, RunArguments& run) {
  for (size_t i = begin; i < words.size();) {
    if (!absl::StartsWith(words[i], "--")) {
      // A lone "-" comes from a pasted diff.
      if (words[i] != "-") run.strays.push_back(words[i]);
      ++i;
      continue;
    }
    RunArgument argument;
    argument.name = words[i].substr(2);
    const size_t equals = argument.name.find('=');
    if (equals != std::string::npos) {
      argument.values.push_back(argument.name.substr(equals + 1));
      argument.name.resize(equals);
    }
    for (++i; i < words.size() && equals == std::string::npos &&
              !absl::StartsWith(words[i], "--") && words[i] != "-";
         ++i) {
      argument.values.push_back(words[i]);
    }
    std::replace(argument.name.begin(), argument.name.end(), '-', '_');
    Set(run, std::move(argument));
  }
}

absl::StatusOr<RunArguments> FromShell(std::string_view text) {
  absl::StatusOr<std::vector<Words>> commands = ShellCommands(text);
  if (!commands.ok()) return commands.status();
  RunArguments run;
  const auto runs_script = [](const Words& words) {
    return std::any_of(words.begin(), words.end(), IsScript);
  };
  auto first = std::find_if(commands->begin(), commands->end(), runs_script);
  if (first == commands->end()) {
    first = commands->begin();
  } else {
    const auto script = std::find_if(first->begin(), first->end(), IsScript);
    run.script = std::filesystem::path(*script).filename().string();
    run.launcher.assign(first->begin(), script);
    first->erase(first->begin(), script + 1);
  }
  // Arguments may go on in the next line without a backslash; another command
  // ends them.
  Words words;
  for (auto it = first; it != commands->end(); ++it) {
    const bool arguments = it->empty() || it->front() == "-" ||
                           absl::StartsWith(it->front(), "--");
    if (it != first && !arguments) break;
    words.insert(words.end(), it->begin(), it->end());
  }
  ReadWords(words, 0, run);
  if (run.arguments.empty()) {
    return absl::InvalidArgumentError(
        "no arguments such as --model_name_or_path in it; expected a command "
        "line of run_glue.py or the JSON of its arguments");
  }
  return run;
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

absl::StatusOr<RunArguments> FromJson(std::string_view text) {
  const Json object = base::ParseTree<Json>(text);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(
        "begins like a JSON object and is none; check it with a JSON tool");
  }
  RunArguments run;
  for (const auto& [name, value] : object.items()) {
    if (value.is_null()) continue;
    RunArgument argument{name, {}};
    if (value.is_array()) {
      for (const Json& entry : value) argument.values.push_back(TextOf(entry));
    } else {
      argument.values.push_back(TextOf(value));
    }
    Set(run, std::move(argument));
  }
  return run;
}

}  // namespace

absl::StatusOr<RunArguments> ParseRunArguments(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string_view::npos && text[begin] == '{';
  return json ? FromJson(text) : FromShell(text);
}

}  // namespace mpsd::client
