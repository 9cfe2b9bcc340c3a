// SPDX-License-Identifier: Apache-2.0
#include "client/complete_words.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/completion.h"
#include "client/connection.h"
#include "client/contexts/context_store.h"
#include "client/list_columns.h"
#include "client/list_order.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/spec/job_schema.h"

namespace mpsd::client {
namespace {

constexpr int kMostJobs = 200;  // the newest; more are no help on a screen
constexpr std::chrono::milliseconds kPatience{1000};

using Words = std::vector<CompleteWord>;

// Which jobs a verb takes; every other verb takes any.
v1::ListJobsRequest JobsOf(const std::string& path) {
  v1::ListJobsRequest request;
  const auto states = [&request](std::initializer_list<v1::JobState> all) {
    for (v1::JobState state : all) request.add_states(state);
  };
  if (path == "cancel" || path == "wait") {
    states({v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING});
  } else if (path == "hold" || path == "move" || path == "release") {
    states({v1::JOB_STATE_QUEUED});
    if (path != "move") request.set_held(path == "release");
  } else if (path == "retry") {
    states({v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED,
            v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED});
  } else if (path == "delete") {
    states({v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED,
            v1::JOB_STATE_CANCELLED});
  } else if (path == "download") {
    states({v1::JOB_STATE_SUCCEEDED});
  } else if (path == "pin" || path == "unpin") {
    request.set_pinned(path == "unpin");
  }
  return request;
}

// Calls `ask` with the daemon that the line names, if it can be asked.
void AskDaemon(
    const CompletePlace& place,
    const std::function<void(Connection&, grpc::ClientContext&)>& ask) {
  const absl::StatusOr<Address> address =
      ChooseDaemon(place.daemon, ContextStore(ContextStore::DefaultFolder()));
  if (!address.ok() || address->tunnel != nullptr) return;
  Connection daemon(*address, nullptr);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  ask(daemon, context);
}

using Takes = std::function<bool(const v1::Job& job)>;

Words Jobs(const CompletePlace& place, v1::ListJobsRequest request,
           const Takes& takes = nullptr) {
  Words words;
  AskDaemon(place, [&](Connection& daemon, grpc::ClientContext& context) {
    request.set_page_size(kMostJobs);
    v1::ListJobsResponse response;
    if (!daemon.jobs().List(&context, request, &response).ok()) return;
    for (const v1::Job& job : response.jobs()) {
      const auto& given = place.arguments;
      if (std::count(given.begin(), given.end(), job.id()) > 0) continue;
      if (takes && !takes(job)) continue;
      words.push_back(
          {job.id(), absl::StrCat(StateName(job.state()), "  ", job.name())});
    }
  });
  return words;
}

bool IsStudy(const v1::Job& job) {
  return job.kind() != v1::JOB_KIND_TRAINING &&
         job.kind() != v1::JOB_KIND_UNSPECIFIED;
}

// Jobs that have a result of this kind; of any study's without a kind.
Words Studies(const CompletePlace& place, v1::JobKind kind) {
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_SUCCEEDED);
  return Jobs(place, std::move(request), [kind](const v1::Job& job) {
    return kind == v1::JOB_KIND_UNSPECIFIED ? IsStudy(job) : job.kind() == kind;
  });
}

Words Models(const CompletePlace& place) {
  Words words;
  AskDaemon(place, [&](Connection& daemon, grpc::ClientContext& context) {
    v1::ListModelsResponse response;
    if (!daemon.models().ListModels(&context, {}, &response).ok()) return;
    for (const v1::Model& model : response.models()) {
      words.push_back({model.name(), absl::StrCat(model.family(), "  ",
                                                  Bytes(model.size_bytes()))});
    }
  });
  return words;
}

Words Contexts() {
  Words words = {{kLocalContext, "this machine's own daemon"}};
  const ContextStore contexts(ContextStore::DefaultFolder());
  const auto names = contexts.Names();
  if (!names.ok()) return words;
  for (const std::string& name : *names) words.push_back({name});
  return words;
}

Words Plain(const std::vector<std::string>& texts) {
  Words words;
  for (const std::string& text : texts) words.push_back({text});
  return words;
}

Words States() {
  Words words;
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i) {
    words.push_back({StateName(static_cast<v1::JobState>(i))});
  }
  return words;
}

// --- Fields of job.json ------------------------------------------------------

using Json = nlohmann::ordered_json;

void AddFields(const Json& object, const std::string& prefix,
               const std::string& end, Words& words) {
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
Words ValuesOf(const std::string& path) {
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
  Words words;
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
Words Assignments(const std::string& word, bool* parts) {
  const size_t equals = word.find('=');
  if (equals != std::string::npos) return ValuesOf(word.substr(0, equals));
  *parts = true;
  Words words;
  AddFields(spec::JobSchema(), "", "=", words);
  return words;
}

// --- The place's own ---------------------------------------------------------

// The words for the last of those that commas divide.
Words InList(const std::string& typed, const std::vector<std::string>& texts,
             const char* other_sign) {
  const size_t comma = typed.rfind(',');
  std::string before =
      comma == std::string::npos ? "" : typed.substr(0, comma + 1);
  if (*other_sign != 0 &&
      absl::StartsWith(typed.substr(before.size()), other_sign)) {
    before += other_sign;
  }
  Words words;
  for (const std::string& text : texts) words.push_back({before + text});
  return words;
}

CompleteWords Value(const CompletePlace& place) {
  const Option& option = *place.option;
  const std::string name = option.get_name();
  CompleteWords result;
  if (name == "TEXT" || name == "WORD") {
    // Words of a person's own.
  } else if (name == "--probe-of") {
    result.words = Studies(place, v1::JOB_KIND_PROBE);
  } else if (name == kJobIdName) {
    result.words = Jobs(place, JobsOf(place.path));
  } else if (name == "--after" || name == "--job") {
    result.words = Jobs(place, {});
  } else if (name == kContextName || name == "--context") {
    result.words = Contexts();
  } else if (name == kModelName || name == "--model") {
    result.words = Models(place);
  } else if (name == "--state") {
    result.words = States();
  } else if (name == "--columns") {
    result.parts = true;
    result.words = InList(place.word, ListColumn::Names(), "");
  } else if (name == "--sort") {
    result.parts = true;
    result.words = InList(place.word, SortNames(), "-");
  } else if (name == "--set") {
    result.words = Assignments(place.word, &result.parts);
  } else if (name == "--unset") {
    AddFields(spec::JobSchema(), "", "", result.words);
  } else if (name == "SHELL") {
    result.words = Plain(CompletionShells());
  } else {
    result.files = true;
    // It takes a job in the place of a job.json.
    if (name == "JOB" && place.path == "profile") {
      result.words = Jobs(place, {});
    }
  }
  return result;
}

Words Options(const Command& program, const CompletePlace& place) {
  Words words;
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

// Whether a shell takes the word as it is.
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
    all = Value(place);
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

}  // namespace mpsd::client
