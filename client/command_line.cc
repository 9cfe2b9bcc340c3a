// SPDX-License-Identifier: Apache-2.0
#include "client/command_line.h"

#include <CLI/CLI.hpp>
#include <climits>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/console.h"

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

Command* Command::add_option_group(const std::string& name) {
  return groups_.emplace_back(new Command(app_->add_option_group(name))).get();
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
MPSD_SETTER(Command, app_, require_option, int)
MPSD_SETTER(Command, app_, footer, std::string)
MPSD_SETTER(Command, app_, group, std::string)
#undef MPSD_SETTER

Command* Command::fallthrough() {
  app_->fallthrough();
  return this;
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
  for (const auto& group : groups_) {
    for (const Option* option : group->options()) all.push_back(option);
  }
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

// CLI11's error, reworded where it would not help.
std::string Complaint(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& args) {
  if (!app.get_subcommands().empty()) return error.what();
  for (const std::string& arg : args) {
    if (absl::StartsWith(arg, "-")) continue;
    if (error.get_name() == "ExtrasError" ||
        error.get_name() == "RequiredError") {
      std::string verbs;
      for (const CLI::App* verb :
           app.get_subcommands([](const CLI::App*) { return true; })) {
        absl::StrAppend(&verbs, verbs.empty() ? "" : ", ", verb->get_name());
      }
      return absl::StrCat("there is no verb '", arg, "'; the verbs are ",
                          verbs);
    }
  }
  return error.get_name() == "RequiredError" ? "no verb given" : error.what();
}

}  // namespace

std::optional<int> Command::Parse(const std::vector<std::string>& args,
                                  std::ostream& out, std::ostream& err) {
  try {
    app_->parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return std::nullopt;
  } catch (const CLI::Success& help) {  // --help, --version
    return app_->exit(help, out, err);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> verbs = chosen();
    err << get_name() << ": " << Complaint(*app_, error, args) << "\nSee `"
        << get_name() << ' '
        << (verbs.empty() ? "" : absl::StrCat(verbs[0], " ")) << "--help`.\n";
    return static_cast<int>(ExitCode::kBadInput);
  }
}

}  // namespace mpsd::client
