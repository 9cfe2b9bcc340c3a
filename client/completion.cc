// SPDX-License-Identifier: Apache-2.0
#include "client/completion.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/app.h"
#include "client/daemons/context_store.h"
#include "client/show.h"
#include "client/text/format.h"
#include "core/base/check.h"
#include "core/base/units.h"
#include "core/spec/job_schema.h"

namespace mpsd::client {
namespace {

bool TakesValue(const Option& option) { return option.get_expected_max() > 0; }

// The verb's or the program's option with this spelling.
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

// The positional argument of the word after `count` others.
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

// Walks through the words before the last one.
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

namespace {

constexpr int kMostCompletions = 200;  // the newest
constexpr absl::Duration kCompletionPatience = absl::Seconds(1);

using WordList = std::vector<CompleteWord>;

// The jobs that a verb accepts; every other verb accepts any.
v1::ListJobsRequest JobsOf(const std::string& path) {
  v1::ListJobsRequest request;
  const auto states = [&request](std::initializer_list<v1::JobState> all) {
    for (v1::JobState state : all) request.add_states(state);
  };
  if (path == "cancel" || path == "wait") {
    states({v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING});
  } else if (path == "hold" || path == "release") {
    states({v1::JOB_STATE_QUEUED});
    request.set_held(path == "release");
  } else if (path == "retry") {
    states({v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED,
            v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED});
  } else if (path == "delete") {
    states({v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED,
            v1::JOB_STATE_CANCELLED});
  } else if (path == "download" || path == "export") {
    states({v1::JOB_STATE_SUCCEEDED});
  }
  return request;
}

// Calls `ask` with the daemon that the line names, if it is reachable.
template <typename Method, typename Request, typename Response>
bool AskDaemon(const CompletePlace& place, Method method,
               const Request& request, Response* response) {
  const absl::StatusOr<Address> address =
      ChooseDaemon(place.daemon, ContextStore(ContextStore::DefaultFolder()));
  if (!address.ok() || address->tunnel != nullptr) return false;
  return Connection(*address)
      .Call(method, request, response, kCompletionPatience)
      .ok();
}

using Accepts = std::function<bool(const v1::Job& job)>;

// Ids, and the names that only one of the jobs has.
WordList JobNames(const CompletePlace& place, v1::ListJobsRequest request,
                  const Accepts& accepts = nullptr) {
  WordList words;
  if (absl::StartsWith(place.word, "@")) return {{"@last"}, {"@running"}};
  request.set_page_size(kMostCompletions);
  v1::ListJobsResponse response;
  if (!AskDaemon(place, &JobStub::List, request, &response)) return words;
  std::map<std::string, int> named;
  for (const v1::Job& job : response.jobs()) ++named[job.name()];
  const auto given = [&place](const std::string& word) {
    return std::count(place.arguments.begin(), place.arguments.end(), word) > 0;
  };
  for (const v1::Job& job : response.jobs()) {
    if (given(job.id()) || given(job.name())) continue;
    if (accepts && !accepts(job)) continue;
    const std::string state = absl::StrCat(StateName(job.state()), "  ");
    words.push_back({job.id(), state + job.name()});
    if (job.name().empty() || named[job.name()] > 1) continue;
    words.push_back({job.name(), state + ShortJobId(job.id())});
  }
  return words;
}

// Jobs with a result of this kind; without a kind, of any study.
WordList Studies(const CompletePlace& place, v1::JobKind kind) {
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_SUCCEEDED);
  return JobNames(place, std::move(request), [kind](const v1::Job& job) {
    return kind == v1::JOB_KIND_UNSPECIFIED ? IsStudy(job.kind())
                                            : job.kind() == kind;
  });
}

WordList Models(const CompletePlace& place) {
  WordList words;
  v1::ListModelsResponse response;
  AskDaemon(place, &ModelStub::ListModels, v1::ListModelsRequest(), &response);
  for (const v1::Model& model : response.models()) {
    words.push_back(
        {model.name(), absl::StrCat(model.family(), "  ",
                                    base::BytesText(model.size_bytes()))});
  }
  return words;
}

WordList Contexts() {
  WordList words = {{kLocalContext, "this machine's own daemon"}};
  const ContextStore contexts(ContextStore::DefaultFolder());
  const auto names = contexts.Names();
  if (!names.ok()) return words;
  for (const std::string& name : *names) words.push_back({name});
  return words;
}

WordList Plain(const std::vector<std::string>& texts) {
  WordList words;
  for (const std::string& text : texts) words.push_back({text});
  return words;
}

// --- Fields of job.json ------------------------------------------------------

using Json = nlohmann::ordered_json;

void AddFields(const Json& object, const std::string& prefix,
               const std::string& end, WordList& words) {
  for (const auto& [name, field] : object["properties"].items()) {
    if (field.contains("properties")) {
      AddFields(field, absl::StrCat(prefix, name, "."), end, words);
    } else {
      words.push_back({absl::StrCat(prefix, name, end),
                       field.value("description", std::string())});
    }
  }
}

// The words that the field may hold: "linear", "cosine" …, "true" and "false".
WordList ValuesOf(const std::string& path) {
  const Json schema = spec::JobSchema();
  const Json* field = &schema;
  for (const auto& part : absl::StrSplit(path, '.')) {
    const std::string name(part);
    if (!field->contains("properties") ||
        !(*field)["properties"].contains(name)) {
      return {};
    }
    field = &(*field)["properties"][name];
  }
  WordList words;
  if (field->contains("enum")) {
    for (const Json& one : (*field)["enum"]) {
      if (one.is_string()) words.push_back({one.get<std::string>()});
    }
  } else if (field->contains("type") && (*field)["type"] == "boolean") {
    words = {{"true"}, {"false"}};
  }
  for (CompleteWord& word : words) {
    word.word = absl::StrCat(path, "=", word.word);
  }
  return words;
}

// "training.le", and then "training.bf16=t".
WordList Assignments(const std::string& word, bool* parts) {
  const size_t equals = word.find('=');
  if (equals != std::string::npos) return ValuesOf(word.substr(0, equals));
  *parts = true;
  WordList words;
  AddFields(spec::JobSchema(), "", "=", words);
  return words;
}

// --- By place ----------------------------------------------------------------

// The words for the last of several comma-separated values.
WordList InList(const std::string& typed, const std::vector<std::string>& texts,
                const char* other_sign) {
  const size_t comma = typed.rfind(',');
  std::string before =
      comma == std::string::npos ? "" : typed.substr(0, comma + 1);
  if (*other_sign != 0 &&
      absl::StartsWith(typed.substr(before.size()), other_sign)) {
    before += other_sign;
  }
  WordList words;
  for (const std::string& text : texts) words.push_back({before + text});
  return words;
}

constexpr std::string_view kFree[] = {
    "--note", "--tag", "--untag", "--reason", "--label", "--name", "--text"};

CompleteWords ValueFor(const CompletePlace& place) {
  const Option& option = *place.option;
  const std::string name = option.get_name();
  CompleteWords result;
  if (std::count(std::begin(kFree), std::end(kFree), name) > 0) {
    // Words that the user chooses freely.
  } else if (name == "--probe-of") {
    result.words = Studies(place, v1::JOB_KIND_PROBE);
  } else if (name == kJobIdName) {
    result.words = JobNames(place, JobsOf(place.path));
  } else if (name == "--after" || name == "--job") {
    result.words = JobNames(place, {});
  } else if (name == kContextName || name == "--context") {
    result.words = Contexts();
  } else if (name == kModelName || name == "--model") {
    result.words = Models(place);
  } else if (name == "--state") {
    result.words = Plain(ValueNames(*v1::JobState_descriptor()));
  } else if (name == "--columns") {
    result.parts = true;
    result.words = InList(place.word, ListColumn::Names(), "");
  } else if (name == "--sort") {
    result.parts = true;
    result.words = InList(place.word, SortNames(), "-");
  } else if (name == "--task") {
    for (const CompleteWord& one : ValuesOf("task")) {
      result.words.push_back({one.word.substr(strlen("task="))});
    }
  } else if (name == "--set") {
    result.words = Assignments(place.word, &result.parts);
  } else if (name == "--unset") {
    AddFields(spec::JobSchema(), "", "", result.words);
  } else if (name == "SHELL") {
    result.words = Plain(CompletionShells());
  } else {
    result.files = true;
    // Accepts a job in place of a job.json.
    if (name == "JOB" && place.path == "check profile") {
      result.words = JobNames(place, {});
    }
  }
  return result;
}

WordList Options(const Command& program, const CompletePlace& place) {
  WordList words;
  const auto add = [&words](const Command& app) {
    for (const Option* option : app.options()) {
      for (const std::string& name : option->spellings()) {
        words.push_back({name, option->get_description()});
      }
    }
  };
  add(*place.verb);
  if (place.verb != &program) add(program);
  return words;
}

// Whether a shell takes the word literally.
bool IsPlain(std::string_view word) {
  return std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("._:/@,=+-", c);
  });
}

}  // namespace

CompleteWords WordsFor(const Command& program, const CompletePlace& place) {
  CompleteWords all;
  const std::vector<Command*> verbs = place.verb->verbs();
  if (place.option != nullptr) {
    all = ValueFor(place);
  } else if (absl::StartsWith(place.word, "-")) {
    all.words = Options(program, place);
  }
  if (place.option == nullptr && !absl::StartsWith(place.word, "-") &&
      place.arguments.empty()) {
    for (const Command* verb : verbs) {
      all.words.push_back({verb->get_name(), verb->get_description()});
    }
  }
  CompleteWords fitting{all.files, all.parts, {}};
  for (CompleteWord& one : all.words) {
    if (!absl::StartsWithIgnoreCase(one.word, place.word) ||
        !IsPlain(one.word)) {
      continue;
    }
    // One line, and one column of it.
    fitting.words.push_back(
        {place.before_value + one.word, Printable(std::move(one.about))});
  }
  return fitting;
}

void PrintWords(const Command& program, std::vector<std::string> words,
                std::ostream& out) {
  if (words.empty()) words.emplace_back();
  const CompleteWords fitting = WordsFor(program, FindPlace(program, words));
  out << (fitting.files ? "files" : fitting.parts ? "parts" : "words") << '\n';
  for (const CompleteWord& one : fitting.words) {
    out << one.word;
    if (!one.about.empty()) out << '\t' << one.about;
    out << '\n';
  }
}

namespace {

// Bash 3.2, which Macs have, knows neither mapfile nor compopt. Readline also
// breaks words at '=' and ':': they are joined for mpsctl, and the text before
// the last break is removed from each answer.
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

namespace {

ExitCode RunCompletion(const std::string& shell, const Console& console) {
  console.out << CompletionScript(shell);
  return ExitCode::kOk;
}

void DeclareCompletion(Command& verb, std::string& shell) {
  verb.add_argument("SHELL", shell, "The shell")
      ->check(IsMember(CompletionShells()));
}

}  // namespace

std::vector<Verb> CompletionVerbs() {
  return {
      {"completion", "Print a shell's completion script",
       Takes(DeclareCompletion, RunCompletion),
       "source <(mpsctl completion bash)", /*calls_daemon=*/false},
  };
}

}  // namespace mpsd::client
