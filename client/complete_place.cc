// SPDX-License-Identifier: Apache-2.0
#include "client/complete_place.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace mpsd::client {
namespace {

bool TakesValue(const CLI::Option& option) {
  return option.get_expected_max() > 0;
}

// The option of this spelling, of the verb or of the program.
const CLI::Option* Find(const CLI::App& program, const CLI::App& verb,
                        const std::string& spelling) {
  for (const CLI::App* app : {&verb, &program}) {
    for (const CLI::Option* option : OptionsOf(*app)) {
      const std::vector<std::string> names = Spellings(*option);
      if (std::count(names.begin(), names.end(), spelling) > 0) return option;
    }
  }
  return nullptr;
}

// The positional argument that the word after `count` others belongs to.
const CLI::Option* Positional(const CLI::App& verb, size_t count) {
  const CLI::Option* last = nullptr;
  for (const CLI::Option* option : OptionsOf(verb)) {
    if (!option->get_positional()) continue;
    last = option;
    if (count < static_cast<size_t>(option->get_expected_max())) return option;
    count -= option->get_expected_max();
  }
  return last != nullptr && last->get_expected_max() > 1 ? last : nullptr;
}

// Walks along the words before the last one.
class Walk {
 public:
  explicit Walk(const CLI::App& program) : program_(program) {
    place_.verb = &program;
  }

  void Take(const std::string& word) {
    if (waiting_ != nullptr) {
      Note(*waiting_, word);
      waiting_ = nullptr;
    } else if (absl::StartsWith(word, "-")) {
      TakeOption(word);
    } else if (const CLI::App* below = Below(word)) {
      place_.verb = below;
      absl::StrAppend(&place_.path, place_.path.empty() ? "" : " ", word);
    } else {
      place_.arguments.push_back(word);
    }
  }

  CompletePlace EndAt(const std::string& word) && {
    place_.word = word;
    const size_t equals = word.find('=');
    if (waiting_ != nullptr) {
      place_.option = waiting_;
    } else if (absl::StartsWith(word, "--") && equals != std::string::npos) {
      place_.option = Find(program_, *place_.verb, word.substr(0, equals));
      place_.before_value = word.substr(0, equals + 1);
      place_.word = word.substr(equals + 1);
    } else if (!absl::StartsWith(word, "-")) {
      place_.option = Positional(*place_.verb, place_.arguments.size());
    }
    return std::move(place_);
  }

 private:
  void TakeOption(const std::string& word) {
    const size_t equals = word.find('=');
    const CLI::Option* option =
        Find(program_, *place_.verb, word.substr(0, equals));
    if (option == nullptr || !TakesValue(*option)) return;
    if (equals == std::string::npos) {
      waiting_ = option;
    } else {
      Note(*option, word.substr(equals + 1));
    }
  }

  void Note(const CLI::Option& option, const std::string& value) {
    const std::string name = option.get_name();
    if (name == "--server") place_.daemon.server = value;
    if (name == "--context") place_.daemon.context = value;
    if (name == "--state-dir") place_.daemon.state_dir = value;
  }

  const CLI::App* Below(const std::string& word) const {
    if (!place_.arguments.empty()) return nullptr;
    for (const CLI::App* verb : VerbsOf(*place_.verb)) {
      if (verb->get_name() == word) return verb;
    }
    return nullptr;
  }

  const CLI::App& program_;
  CompletePlace place_;
  const CLI::Option* waiting_ = nullptr;  // for its value
};

}  // namespace

std::vector<const CLI::Option*> OptionsOf(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  for (const CLI::App* group : app.get_subcommands(
           [](const CLI::App* one) { return one->get_name().empty(); })) {
    for (const CLI::Option* option : OptionsOf(*group)) {
      if (option != group->get_help_ptr()) options.push_back(option);
    }
  }
  return options;
}

std::vector<std::string> Spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

std::vector<const CLI::App*> VerbsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) {
    return !verb->get_name().empty() && !verb->get_group().empty();
  });
}

CompletePlace FindPlace(const CLI::App& program,
                        const std::vector<std::string>& words) {
  base::Check(!words.empty(), "a word is being typed");
  Walk walk(program);
  for (size_t i = 0; i + 1 < words.size(); ++i) walk.Take(words[i]);
  return std::move(walk).EndAt(words.back());
}

}  // namespace mpsd::client
