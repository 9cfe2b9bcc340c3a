// SPDX-License-Identifier: Apache-2.0
#include "client/import/shell_words.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace mpsd::client {
namespace {

using Words = std::vector<std::string>;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// The offset of the value in NAME=value; 0 for another word.
size_t ValueOf(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return 0;
  for (size_t i = 0; i < equals; ++i) {
    if (!IsNameCharacter(word[i])) return 0;
  }
  return absl::ascii_isdigit(static_cast<unsigned char>(word[0])) ? 0
                                                                  : equals + 1;
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Words>> Run() {
    while (fault_.ok() && at_ < text_.size()) Step();
    if (!fault_.ok()) return fault_;
    EndCommand();
    return std::move(commands_);
  }

 private:
  char Take() {
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }
  bool Next(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void Append(char c) {
    word_ += c;
    in_word_ = true;
  }
  void Fail(int line, const std::string& what) {
    if (!fault_.ok()) return;
    fault_ =
        absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  }

  void Step() {
    const char c = Take();
    if (c == '\\') return Escaped();
    if (c == '\'') return SingleQuoted();
    if (c == '"') return DoubleQuoted();
    if (c == '$') return Variable();
    if (c == '`')
      return Fail(line_, "a command in ` ` is not run; write what it gives");
    if (c == '#' && !in_word_) {
      while (at_ < text_.size() && !Next('\n')) Take();
      return;
    }
    if (c == '\n' || c == ';' || c == '&' || c == '|') return EndCommand();
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) return EndWord();
    Append(c);
  }

  void Escaped() {
    if (Next('\r')) Take();  // a file from Windows
    if (at_ == text_.size()) return;
    const char c = Take();
    if (c != '\n') Append(c);
  }

  void SingleQuoted() {
    const int line = line_;
    in_word_ = true;
    while (at_ < text_.size() && !Next('\'')) Append(Take());
    if (at_ == text_.size()) return Fail(line, "the quote ' does not end");
    Take();
  }

  void DoubleQuoted() {
    const int line = line_;
    in_word_ = true;
    while (fault_.ok() && at_ < text_.size() && !Next('"')) {
      const char c = Take();
      if (c == '$') {
        Variable();
      } else if (c == '\\' && at_ < text_.size() &&
                 std::string_view("\"\\$`\n").find(text_[at_]) !=
                     std::string_view::npos) {
        Escaped();
      } else {
        Append(c);
      }
    }
    if (at_ == text_.size()) return Fail(line, "the quote \" does not end");
    Take();
  }

  void Variable() {
    const bool braces = Next('{');
    if (Next('(')) {
      return Fail(line_, "a command in $( ) is not run; write what it gives");
    }
    if (braces) Take();
    std::string name;
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) name += Take();
    if (name.empty() && !braces) return Append('$');
    if (braces && !Next('}')) {
      return Fail(line_,
                  absl::StrCat("${", name, " is more than a name in braces"));
    }
    if (braces) Take();
    auto value = variables_.find(name);
    if (value == variables_.end()) {
      return Fail(line_, absl::StrCat("$", name,
                                      " is not set in this file; add a "
                                      "line ",
                                      name, "=… above"));
    }
    word_ += value->second;
    in_word_ = in_word_ || !value->second.empty();
  }

  void EndWord() {
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  void EndCommand() {
    EndWord();
    size_t first = !words_.empty() && words_[0] == "export" ? 1 : 0;
    for (; first < words_.size(); ++first) {
      const size_t value = ValueOf(words_[first]);
      if (value == 0) break;
      variables_[words_[first].substr(0, value - 1)] =
          words_[first].substr(value);
    }
    words_.erase(words_.begin(), words_.begin() + first);
    if (!words_.empty()) commands_.push_back(std::move(words_));
    words_.clear();
  }

  const std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::string word_;
  bool in_word_ = false;
  Words words_;
  std::vector<Words> commands_;
  std::map<std::string, std::string> variables_;
  absl::Status fault_;
};

}  // namespace

absl::StatusOr<std::vector<Words>> ShellCommands(std::string_view text) {
  return Splitter(text).Run();
}

}  // namespace mpsd::client
