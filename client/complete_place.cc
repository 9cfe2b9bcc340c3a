// SPDX-License-Identifier: Apache-2.0
#include "client/complete_place.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "core/base/check.h"

namespace mpsd::client {
namespace {

bool TakesValue(const Option& option) { return option.get_expected_max() > 0; }

// The option of this spelling, of the verb or of the program.
const Option* Find(const Command& program, const Command& verb,
                   const std::string& spelling) {
  for (const Command* app : {&verb, &program}) {
    for (const Option* option : app->options()) {
      const std::vector<std::string> names = option->spellings();
      if (std::count(names.begin(), names.end(), spelling) > 0) return option;
    }
  }
  return nullptr;
}

// The positional argument that the word after `count` others belongs to.
const Option* Positional(const Command& verb, size_t count) {
  const Option* last = nullptr;
  for (const Option* option : verb.options()) {
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
  explicit Walk(const Command& program) : program_(program) {
    place_.verb = &program;
  }

  void Take(const std::string& word) {
    if (waiting_ != nullptr) {
      Note(*waiting_, word);
      waiting_ = nullptr;
    } else if (absl::StartsWith(word, "-")) {
      TakeOption(word);
    } else if (const Command* below = Below(word)) {
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
    const Option* option = Find(program_, *place_.verb, word.substr(0, equals));
    if (option == nullptr || !TakesValue(*option)) return;
    if (equals == std::string::npos) {
      waiting_ = option;
    } else {
      Note(*option, word.substr(equals + 1));
    }
  }

  void Note(const Option& option, const std::string& value) {
    const std::string name = option.get_name();
    if (name == "--server") place_.daemon.server = value;
    if (name == "--context") place_.daemon.context = value;
    if (name == "--state-dir") place_.daemon.state_dir = value;
  }

  const Command* Below(const std::string& word) const {
    if (!place_.arguments.empty()) return nullptr;
    for (const Command* verb : place_.verb->verbs()) {
      if (verb->get_name() == word) return verb;
    }
    return nullptr;
  }

  const Command& program_;
  CompletePlace place_;
  const Option* waiting_ = nullptr;  // for its value
};

}  // namespace

CompletePlace FindPlace(const Command& program,
                        const std::vector<std::string>& words) {
  base::Check(!words.empty(), "a word is being typed");
  Walk walk(program);
  for (size_t i = 0; i + 1 < words.size(); ++i) walk.Take(words[i]);
  return std::move(walk).EndAt(words.back());
}

}  // namespace mpsd::client
