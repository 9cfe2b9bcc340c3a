// SPDX-License-Identifier: Apache-2.0
#include "client/completion.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

std::vector<const CLI::App*> Verbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// "--follow" and "-f" for one option; nothing for a positional argument.
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

std::string Description(const CLI::Option& option) {
  return absl::StrReplaceAll(option.get_description(), {{"\n", " "}});
}

bool TakesValue(const CLI::Option& option) {
  return option.get_expected_max() > 0;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (std::string& name : Spellings(*option)) names.push_back(name);
  }
  return names;
}

bool TakesJobId(const CLI::App& verb) {
  const CLI::Option* first = verb.get_option_no_throw(kJobIdName);
  return first != nullptr && first->get_positional();
}

// Every option of the program that takes a value.
std::vector<std::string> ValueOptions(const CLI::App& app) {
  std::vector<std::string> names;
  const auto add = [&names](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      if (!TakesValue(*option)) continue;
      for (std::string& name : Spellings(*option)) names.push_back(name);
    }
  };
  add(app);
  for (const CLI::App* verb : Verbs(app)) add(*verb);
  return names;
}

// --- bash --------------------------------------------------------------------

constexpr char kBash[] = R"sh(# bash completion of mpsctl
# Load it with: source <(mpsctl completion bash)
_mpsctl() {
  local cur="${COMP_WORDS[COMP_CWORD]}" verb="" skip="" word
  local -a connect=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ -n $skip ]]; then
      [[ $skip == keep ]] && connect+=("$word")
      skip=""
      continue
    fi
    case "$word" in
      --server|--state-dir) connect+=("$word"); skip=keep ;;
      VALUE_OPTIONS) skip=drop ;;
      -*) ;;
      *) [[ -z $verb ]] && verb="$word" ;;
    esac
  done
  COMPREPLY=()
  if [[ -n $skip ]]; then
    COMPREPLY=($(compgen -f -- "$cur"))
    return
  fi
  local options="GLOBAL_OPTIONS" words=""
  case "$verb" in
    "") words="VERBS" ;;
VERB_CASES  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ $words == :ids ]]; then
    COMPREPLY=($(compgen -W \
      "$(mpsctl "${connect[@]}" list --quiet 2>/dev/null)" -- "$cur"))
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -o filenames -F _mpsctl mpsctl
)sh";

// The words that may follow a verb: ":ids", a fixed set, or nothing for files.
std::string PositionalWords(const CLI::App& verb) {
  if (TakesJobId(verb)) return ":ids";
  if (verb.get_name() == "completion") {
    return absl::StrJoin(CompletionShells(), " ");
  }
  return "";
}

std::string BashScript(const CLI::App& app) {
  std::string cases;
  std::vector<std::string> names;
  for (const CLI::App* verb : Verbs(app)) {
    names.push_back(verb->get_name());
    absl::StrAppend(&cases, "    ", verb->get_name(), ")\n      options+=\" ",
                    absl::StrJoin(OptionNames(*verb), " "),
                    "\"\n      words=\"", PositionalWords(*verb), "\" ;;\n");
  }
  return absl::StrReplaceAll(
      kBash, {{"VALUE_OPTIONS", absl::StrJoin(ValueOptions(app), "|")},
              {"GLOBAL_OPTIONS", absl::StrJoin(OptionNames(app), " ")},
              {"VERBS", absl::StrJoin(names, " ")},
              {"VERB_CASES", cases}});
}

// --- zsh ---------------------------------------------------------------------

constexpr char kZsh[] = R"sh(#compdef mpsctl
# zsh completion of mpsctl
# Load it with: source <(mpsctl completion zsh)
_mpsctl_ids() {
  local -a ids connect
  local i
  for ((i = 2; i < CURRENT; ++i)); do
    case "$words[i]" in
      --server|--state-dir) connect+=("$words[i]" "$words[i+1]") ;;
    esac
  done
  ids=(${(f)"$(mpsctl $connect list --quiet 2>/dev/null)"})
  compadd -a ids
}
_mpsctl() {
  local -a verbs global
  verbs=(
VERBS  )
  global=(
GLOBAL_OPTIONS  )
  local i verb="" skip=""
  for ((i = 2; i < CURRENT; ++i)); do
    if [[ -n $skip ]]; then skip=""; continue; fi
    case "$words[i]" in
      VALUE_OPTIONS) skip=1 ;;
      -*) ;;
      *) verb="$words[i]"; break ;;
    esac
  done
  case "$verb" in
    "") _arguments $global '1:verb:{_describe verb verbs}' ;;
VERB_CASES  esac
}
if [[ "$funcstack[1]" == _mpsctl ]]; then
  _mpsctl "$@"
else
  compdef _mpsctl mpsctl
fi
)sh";

std::string ZshQuoted(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshOptions(const CLI::App& app, const char* indent) {
  std::string lines;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : Spellings(*option)) {
      absl::StrAppend(&lines, indent, "'", name, "[",
                      ZshQuoted(Description(*option)), "]",
                      TakesValue(*option) ? ":value:_files" : "", "'\n");
    }
  }
  return lines;
}

std::string ZshPositional(const CLI::App& verb) {
  const std::string words = PositionalWords(verb);
  if (words == ":ids") return "'2:job:_mpsctl_ids'";
  if (!words.empty()) return absl::StrCat("'2:word:(", words, ")'");
  return "'2:file:_files'";
}

std::string ZshScript(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : Verbs(app)) {
    absl::StrAppend(&verbs, "    '", verb->get_name(), ":",
                    ZshQuoted(verb->get_description()), "'\n");
    absl::StrAppend(&cases, "    ", verb->get_name(),
                    ")\n      _arguments $global '1:verb:' \\\n        ",
                    ZshPositional(*verb), " \\\n");
    std::string options = ZshOptions(*verb, "        ");
    options = absl::StrReplaceAll(options, {{"'\n", "' \\\n"}});
    absl::StrAppend(&cases, options, "        ;;\n");
  }
  return absl::StrReplaceAll(
      kZsh, {{"VALUE_OPTIONS", absl::StrJoin(ValueOptions(app), "|")},
             {"GLOBAL_OPTIONS", ZshOptions(app, "    ")},
             {"VERB_CASES", cases},
             {"VERBS", verbs}});
}

// --- fish --------------------------------------------------------------------

constexpr char kFish[] = R"sh(# fish completion of mpsctl
# Load it with: mpsctl completion fish | source
function __mpsctl_ids
  set -l tokens (commandline -opc)
  set -l connect
  for i in (seq 2 (count $tokens))
    if contains -- $tokens[$i] --server --state-dir
      set -a connect $tokens[$i] $tokens[(math $i + 1)]
    end
  end
  mpsctl $connect list --quiet 2>/dev/null
end
complete -c mpsctl -f
)sh";

std::string FishQuoted(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}});
}

std::string FishOptions(const CLI::App& app, const std::string& condition) {
  std::string lines;
  for (const CLI::Option* option : app.get_options()) {
    if (Spellings(*option).empty()) continue;
    absl::StrAppend(&lines, "complete -c mpsctl", condition);
    for (const std::string& name : option->get_snames()) {
      absl::StrAppend(&lines, " -s ", name);
    }
    for (const std::string& name : option->get_lnames()) {
      absl::StrAppend(&lines, " -l ", name);
    }
    absl::StrAppend(&lines, TakesValue(*option) ? " -r -F" : "", " -d '",
                    FishQuoted(Description(*option)), "'\n");
  }
  return lines;
}

std::string FishScript(const CLI::App& app) {
  std::string script = absl::StrCat(kFish, FishOptions(app, ""));
  for (const CLI::App* verb : Verbs(app)) {
    const std::string seen = absl::StrCat(" -n '__fish_seen_subcommand_from ",
                                          verb->get_name(), "'");
    absl::StrAppend(&script, "complete -c mpsctl -n __fish_use_subcommand -a ",
                    verb->get_name(), " -d '",
                    FishQuoted(verb->get_description()), "'\n",
                    FishOptions(*verb, seen));
    const std::string words = PositionalWords(*verb);
    const std::string list = words == ":ids" ? "(__mpsctl_ids)" : words;
    absl::StrAppend(
        &script, "complete -c mpsctl", seen,
        list.empty() ? " -F\n" : absl::StrCat(" -a '", list, "'\n"));
  }
  return script;
}

}  // namespace

std::vector<std::string> CompletionShells() { return {"bash", "zsh", "fish"}; }

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  if (shell == "zsh") return ZshScript(app);
  if (shell == "fish") return FishScript(app);
  return BashScript(app);
}

void AddCompletion(CLI::App& app, Action* action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("completion", "Print a shell's completion script");
  verb->add_option("SHELL", *shell, "The shell")
      ->type_name("")
      ->required()
      ->check(CLI::IsMember(CompletionShells()));
  verb->callback([=, &app] {
    *action = [=, &app](const Console& console) {
      console.out << CompletionScript(app, *shell);
      return ExitCode::kOk;
    };
  });
}

}  // namespace mpsd::client
