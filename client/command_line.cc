// SPDX-License-Identifier: Apache-2.0
#include "client/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/console.h"
#include "client/text/format.h"
#include "core/spec/fields.h"

namespace mpsd::client {

// --- Checks ------------------------------------------------------------------

ValueCheck::ValueCheck(CLI::Validator validator)
    : validator_(std::make_shared<CLI::Validator>(std::move(validator))) {}

template <typename T>
ValueCheck Range(T least, T most) {
  return ValueCheck(CLI::Range(least, most));
}
template ValueCheck Range(int, int);
template ValueCheck Range(int64_t, int64_t);
template ValueCheck Range(double, double);

ValueCheck IsMember(std::vector<std::string> values, bool ignore_case) {
  if (ignore_case) {
    return ValueCheck(CLI::IsMember(std::move(values), CLI::ignore_case));
  }
  return ValueCheck(CLI::IsMember(std::move(values)));
}

// --- Options -----------------------------------------------------------------

// A setter that passes its value on.
#define MPSD_SETTER(Class, to, name, Type) \
  Class* Class::name(Type value) {         \
    to->name(std::move(value));            \
    return this;                           \
  }
MPSD_SETTER(Option, option_, required, bool)
MPSD_SETTER(Option, option_, type_name, std::string)
MPSD_SETTER(Option, option_, description, std::string)
MPSD_SETTER(Option, option_, expected, int)
MPSD_SETTER(Option, option_, delimiter, char)
MPSD_SETTER(Option, option_, allow_extra_args, bool)

Option* Option::check(const ValueCheck& check) {
  option_->check(check.validator());
  return this;
}

Option* Option::check(std::string (*fault)(const std::string& value)) {
  option_->check(fault);
  return this;
}

Option* Option::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Option* Option::excludes(Option* other) {
  option_->excludes(other->option_);
  return this;
}

Option* Option::needs(Option* other) {
  option_->needs(other->option_);
  return this;
}

Option* Option::expected(int least, int most) {
  option_->expected(
      least, most == INT_MAX ? CLI::detail::expected_max_vector_size : most);
  return this;
}

std::string Option::get_name() const { return option_->get_name(); }

std::string Option::get_description() const {
  return option_->get_description();
}

bool Option::get_positional() const { return option_->get_positional(); }

int Option::get_expected_max() const { return option_->get_expected_max(); }

bool Option::given() const { return option_->count() > 0; }

std::vector<std::string> Option::spellings() const {
  std::vector<std::string> names;
  for (const std::string& name : option_->get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option_->get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

// --- Commands ----------------------------------------------------------------

Command::Command(const std::string& description, const std::string& name)
    : program_(std::make_unique<CLI::App>(description, name)),
      app_(program_.get()) {
  Keep(app_->get_help_ptr());
}

Command::Command(CLI::App* app) : app_(app) {}

Command::~Command() = default;

Option* Command::Keep(CLI::Option* option) {
  return options_.emplace_back(std::make_unique<Option>(option)).get();
}

template <typename T>
Option* Command::add_option(const std::string& name, T& value,
                            const std::string& help) {
  const size_t space = name.find(' ');
  Option* option = Keep(app_->add_option(name.substr(0, space), value, help));
  if (space != std::string::npos) {
    option->type_name(name.substr(space + 1));
  } else if (option->get_positional()) {
    option->type_name("");
  }
  return option;
}

template <typename T>
Option* Command::add_flag(const std::string& name, T& value,
                          const std::string& help) {
  return Keep(app_->add_flag(name, value, help));
}

#define MPSD_VALUE(...)                                                  \
  template Option* Command::add_option(const std::string&, __VA_ARGS__&, \
                                       const std::string&);
MPSD_VALUE(std::string)
MPSD_VALUE(int32_t)
MPSD_VALUE(int64_t)
MPSD_VALUE(uint64_t)
MPSD_VALUE(double)
MPSD_VALUE(std::optional<std::string>)
MPSD_VALUE(std::optional<int32_t>)
MPSD_VALUE(std::optional<int64_t>)
MPSD_VALUE(std::optional<uint64_t>)
MPSD_VALUE(std::optional<double>)
MPSD_VALUE(std::vector<std::string>)
MPSD_VALUE(std::vector<int64_t>)
#undef MPSD_VALUE
template Option* Command::add_flag(const std::string&, bool&,
                                   const std::string&);
template Option* Command::add_flag(const std::string&, std::optional<bool>&,
                                   const std::string&);

Command* Command::add_subcommand(const std::string& name,
                                 const std::string& help) {
  Command* verb =
      verbs_.emplace_back(new Command(app_->add_subcommand(name, help))).get();
  verb->Keep(verb->app_->get_help_ptr());
  return verb;
}

Option* Command::get_option(const std::string& name) {
  CLI::Option* const found = app_->get_option(name);
  for (const auto& option : options_) {
    if (option->option_ == found) return option.get();
  }
  return Keep(found);
}

Command* Command::get_subcommand(const std::string& name) {
  for (const auto& verb : verbs_) {
    if (verb->get_name() == name) return verb.get();
  }
  return nullptr;
}

MPSD_SETTER(Command, app_, callback, std::function<void()>)
MPSD_SETTER(Command, app_, require_subcommand, int)
MPSD_SETTER(Command, app_, footer, std::string)
MPSD_SETTER(Command, app_, group, std::string)
#undef MPSD_SETTER

Command* Command::fallthrough() {
  app_->fallthrough();
  return this;
}

void Command::set_examples(const std::string& lines) {
  if (lines.empty()) return;
  const std::string before = app_->get_footer();
  app_->footer(absl::StrCat(before, before.empty() ? "" : "\n\n",
                            "Examples:\n  ",
                            absl::StrReplaceAll(lines, {{"\n", "\n  "}})));
}

void Command::set_version_flag(const std::string& name,
                               const std::string& version) {
  Keep(app_->set_version_flag(name, version));
}

void Command::set_verb_label(const std::string& label) {
  app_->get_formatter()->label("SUBCOMMAND", label);
}

const std::string& Command::get_name() const { return app_->get_name(); }

std::string Command::get_description() const { return app_->get_description(); }

std::vector<std::string> Command::chosen() const {
  std::vector<std::string> names;
  for (const CLI::App* verb : app_->get_subcommands()) {
    names.push_back(verb->get_name());
  }
  return names;
}

std::vector<const Option*> Command::options() const {
  std::vector<const Option*> all;
  for (const auto& option : options_) all.push_back(option.get());
  return all;
}

std::vector<Command*> Command::verbs() const {
  std::vector<Command*> shown;
  for (const auto& verb : verbs_) {
    if (!verb->app_->get_group().empty()) shown.push_back(verb.get());
  }
  return shown;
}

// --- The parse ---------------------------------------------------------------

namespace {

// What a word that is none of `verbs` may have meant; "" for nothing.
std::string Meant(const std::string& word,
                  const std::vector<std::string>& verbs,
                  const Command::OtherNames& others) {
  std::vector<std::string_view> known(verbs.begin(), verbs.end());
  for (const auto& [other, meant] : others) known.push_back(other);
  const auto near = spec::NearestName(word, known);
  if (!near) return "";
  std::string verb(*near);
  if (const auto other = others.find(verb); other != others.end()) {
    verb = other->second;
  }
  return *near == word ? absl::StrCat("; use `mpsctl ", verb, "`")
                       : absl::StrCat("; did you mean `mpsctl ", verb, "`?");
}

std::string NoOption(const std::string& word, const CLI::App& verb,
                     const CLI::App& program) {
  std::vector<std::string_view> names;
  for (const CLI::App* app : {&verb, &program}) {
    for (const CLI::Option* option : app->get_options()) {
      const std::vector<std::string>& longs = option->get_lnames();
      names.insert(names.end(), longs.begin(), longs.end());
    }
  }
  std::string_view name = std::string_view(word).substr(0, word.find('='));
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  auto near = spec::NearestName(name, names);
  for (const std::string_view known : names) {
    if (!near && name.size() > 1 && known.starts_with(name)) near = known;
  }
  const std::string what = absl::StrCat("no option ", Printable(word));
  for (const CLI::App* other : program.get_subcommands(nullptr)) {
    if (!near && name == other->get_name()) {
      return absl::StrCat(what, "; did you mean `mpsctl ", other->get_name(),
                          "`?");
    }
  }
  return near ? absl::StrCat(what, "; did you mean --", std::string(*near), "?")
              : what;
}

// CLI11's error, reworded where it would not help. `verb`: the last one that
// the command line names; `path`: its words.
std::string Complaint(const CLI::App& program, const CLI::App& verb,
                      const std::string& path, const CLI::ParseError& error,
                      const Command::OtherNames& others) {
  std::vector<std::string> names;
  for (const CLI::App* one :
       verb.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  const bool extras =
      error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (error.get_name() == "ConversionError") {
    // "Could not convert: --limit = many"
    return absl::StrReplaceAll(error.what(),
                               {{"Could not convert: ", ""},
                                {" = ", ": expected a whole number, not "}});
  }
  if (!extras && error.get_name() != "RequiredError") return error.what();
  const std::vector<std::string> words = program.remaining();
  for (const std::string& word : program.remaining(/*recurse=*/true)) {
    if (absl::StartsWith(word, "-")) return NoOption(word, verb, program);
    if (!names.empty()) break;  // it is no verb, which counts more
  }
  if (names.empty() || extras) return error.what();
  const std::string what =
      words.empty() ? "no verb given"
                    : absl::StrCat("no verb ", path, Printable(words[0]));
  if (path.empty()) {
    return words.empty() ? what : what + Meant(words[0], names, others);
  }
  return absl::StrCat(what, "; ", path, "has ", absl::StrJoin(names, ", "));
}

}  // namespace

std::optional<int> Command::Parse(const std::vector<std::string>& args,
                                  const OtherNames& others, std::ostream& out,
                                  std::ostream& err) {
  try {
    app_->parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return std::nullopt;
  } catch (const CLI::Success& help) {  // --help, --version
    return app_->exit(help, out, err);
  } catch (const CLI::ParseError& error) {
    const CLI::App* verb = app_;
    std::string path;  // "admin token "
    while (!verb->get_subcommands().empty()) {
      verb = verb->get_subcommands()[0];
      absl::StrAppend(&path, verb->get_name(), " ");
    }
    err << get_name() << ": " << Complaint(*app_, *verb, path, error, others)
        << "\nSee `" << get_name() << ' ' << path
        << (path.empty() ? "help" : "--help") << "`.\n";
    return static_cast<int>(ExitCode::kBadInput);
  }
}

}  // namespace mpsd::client
