// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace mpsd::client {

// The condition for a value; an error names it.
class ValueCheck {
 public:
  explicit ValueCheck(CLI::Validator validator);
  const CLI::Validator& validator() const { return *validator_; }

 private:
  std::shared_ptr<const CLI::Validator> validator_;
};

// From `least` to `most`, both included. T: int, int64_t or double.
template <typename T>
ValueCheck Range(T least, T most);
// One of `values`.
ValueCheck IsMember(std::vector<std::string> values, bool ignore_case = false);

// An option, a flag or a positional argument. The setters are CLI11's, which
// this class hides: parsing CLI11's headers takes longer than compiling a verb.
// A Command owns its options.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required(bool value = true);
  Option* type_name(std::string name);
  Option* description(std::string text);
  Option* check(const ValueCheck& check);
  // `fault` returns what is wrong with a value, "" for nothing.
  Option* check(std::string (*fault)(const std::string& value));
  Option* capture_default_str();
  Option* excludes(Option* other);
  Option* needs(Option* other);
  Option* expected(int count);
  // INT_MAX values at most: no limit.
  Option* expected(int least, int most);
  Option* delimiter(char separator);
  Option* allow_extra_args(bool allow);

  // "--follow", or the name of a positional argument.
  std::string get_name() const;
  std::string get_description() const;
  bool get_positional() const;
  int get_expected_max() const;
  // Whether the command line contains it, even empty.
  bool given() const;
  // "-f" and "--follow"; nothing for a positional argument.
  std::vector<std::string> spellings() const;

 private:
  friend class Command;
  CLI::Option* option_;
};

// A program, or one of its verbs. Methods named like CLI11's do what CLI11's
// do. A verb belongs to the command above it. A variable that an option fills
// must outlive the parse.
class Command {
 public:
  Command(const std::string& description, const std::string& name);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // `name` is followed by what the help calls the value, "-o,--output DIR"; a
  // positional argument's name says enough. T: std::string, bool, int32_t,
  // int64_t, uint64_t, double, or a std::optional or std::vector of one of
  // these, if command_line.cc instantiates it.
  template <typename T>
  Option* add_option(const std::string& name, T& value,
                     const std::string& help = "");
  // A required option; positional ones are, by default, optional.
  template <typename T>
  Option* add_argument(const std::string& name, T& value,
                       const std::string& help = "") {
    return add_option(name, value, help)->required();
  }
  // A repeatable option with one value each time.
  Option* add_list(const std::string& name, std::vector<std::string>& values,
                   const std::string& help) {
    return add_option(name, values, help)->allow_extra_args(false);
  }
  template <typename T>
  Option* add_flag(const std::string& name, T& value,
                   const std::string& help = "");
  Command* add_subcommand(const std::string& name,
                          const std::string& help = "");
  Option* get_option(const std::string& name);
  Command* get_subcommand(const std::string& name);

  Command* callback(std::function<void()> run);
  Command* require_subcommand(int count);
  Command* fallthrough();
  Command* footer(std::string text);
  // Command lines at the end of the help, one a line.
  void set_examples(const std::string& lines);
  Command* group(std::string name);
  void set_version_flag(const std::string& name, const std::string& version);
  // What the help calls a verb.
  void set_verb_label(const std::string& label);

  const std::string& get_name() const;
  std::string get_description() const;
  // The verbs that the command line names.
  std::vector<std::string> chosen() const;
  std::vector<const Option*> options() const;
  // The verbs directly below, in order; not those of the group "", which the
  // help does not list.
  std::vector<Command*> verbs() const;

  // Words that are no verbs, each with what to type instead: "ps", "list".
  using OtherNames = std::map<std::string, std::string>;

  // Parses the words after the program's name and runs the callbacks. Returns
  // nullopt to continue, else the exit code: help and version are printed to
  // `out`, an error to `err`, with what a wrong verb may have meant.
  std::optional<int> Parse(const std::vector<std::string>& args,
                           const OtherNames& others, std::ostream& out,
                           std::ostream& err);

 private:
  explicit Command(CLI::App* app);
  Option* Keep(CLI::Option* option);

  std::unique_ptr<CLI::App> program_;  // null for a verb
  CLI::App* app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Command>> verbs_;
};

}  // namespace mpsd::client
