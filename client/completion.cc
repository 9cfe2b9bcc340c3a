// SPDX-License-Identifier: Apache-2.0
#include "client/completion.h"

#include <memory>
#include <string>
#include <vector>

#include "client/verbs.h"

namespace mpsd::client {
namespace {

// Bash 3.2, which Macs have, knows neither mapfile nor compopt. Readline breaks
// words at '=' and ':', too: they are joined for mpsctl, and what stands before
// the last break is taken off each answer.
constexpr char kBash[] = R"sh(# bash completion of mpsctl
# Load it with: source <(mpsctl completion bash)
_mpsctl() {
  local typed="${COMP_WORDS[COMP_CWORD]}" word joins="" kind="" head line
  local -a words=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if ((${#words[@]})) && [[ -n $joins || $word == [=:] ]]; then
      words[${#words[@]}-1]+="$word"
    else
      words+=("$word")
    fi
    [[ $word == [=:] ]] && joins=1 || joins=""
  done
  [[ $typed == [=:] ]] && typed=""
  head="${words[${#words[@]}-1]%"$typed"}"
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ -z $kind ]]; then
      kind="$line"
    else
      line="${line%%$'\t'*}"
      COMPREPLY+=("${line#"$head"}")
    fi
  done < <(mpsctl complete -- "${words[@]}" 2>/dev/null)
  if [[ $kind == files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -f -- "$typed")
  elif [[ $kind == parts ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _mpsctl mpsctl
)sh";

constexpr char kZsh[] = R"sh(#compdef mpsctl
# zsh completion of mpsctl
# Load it with: source <(mpsctl completion zsh)
_mpsctl() {
  local -a lines values shown
  local line
  lines=("${(@f)$(mpsctl complete -- "${(@Q)words[2,CURRENT-1]}" \
    "${(Q)PREFIX}" 2>/dev/null)}")
  [[ $lines[1] == files ]] && _files
  for line in $lines[2,-1]; do
    values+=("${line%%$'\t'*}")
    shown+=("${line/$'\t'/  }")
  done
  if [[ $lines[1] == parts ]]; then
    compadd -l -S '' -d shown -a values
  elif (( $#values )); then
    compadd -l -d shown -a values
  fi
}
if [[ "$funcstack[1]" == _mpsctl ]]; then
  _mpsctl "$@"
else
  compdef _mpsctl mpsctl
fi
)sh";

constexpr char kFish[] = R"sh(# fish completion of mpsctl
# Load it with: mpsctl completion fish | source
function __mpsctl_words
  set -l words (commandline -opc)
  set -l typed (commandline -ct)
  set -l lines (mpsctl complete -- $words[2..-1] "$typed" 2>/dev/null)
  if test "$lines[1]" = files
    __fish_complete_path "$typed"
  end
  if set -q lines[2]
    printf '%s\n' $lines[2..-1]
  end
end
complete -c mpsctl -f -a '(__mpsctl_words)'
)sh";

}  // namespace

std::vector<std::string> CompletionShells() { return {"bash", "zsh", "fish"}; }

std::string CompletionScript(const std::string& shell) {
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : kBash;
}

void AddCompletion(Command& app, Action* action) {
  auto shell = std::make_shared<std::string>();
  Command* verb =
      app.add_subcommand("completion", "Print a shell's completion script");
  verb->add_option("SHELL", *shell, "The shell")
      ->type_name("")
      ->required()
      ->check(IsMember(CompletionShells()));
  verb->callback([=] {
    *action = [=](const Console& console) {
      console.out << CompletionScript(*shell);
      return ExitCode::kOk;
    };
  });
}

}  // namespace mpsd::client
