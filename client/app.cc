// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/completion.h"
#include "client/connection.h"
#include "client/daemons/context_store.h"
#include "client/jobs.h"
#include "core/base/check.h"

namespace mpsd::client {
namespace {

struct GlobalOptions {
  DaemonChoice daemon;
  bool json = false;
};

void AddGlobalOptions(Command& app, GlobalOptions* options) {
  app.add_option("--server ADDRESS", options->daemon.server,
                 "HOST:PORT, unix:PATH or /PATH of the daemon, or\n"
                 "ssh://[USER@]HOST[:PORT][/PATH] by ssh\n"
                 "(else MPSD_SERVER)");
  app.add_option("--context NAME", options->daemon.context,
                 "The daemon of this name that you logged in to\n"
                 "(else MPSD_CONTEXT, else the current context)");
  app.add_option("--state-dir DIR", options->daemon.state_dir,
                 "The daemon's state folder, which holds its socket\n"
                 "(else MPSD_STATE_DIR, else mpsd's default)");
  app.add_flag("--json", options->json, "Print JSON, one object per line");
  app.set_version_flag("--version", "mpsctl " MPSD_VERSION);
}

// The groups of the help, at most ten verbs each, in the order of the help.
constexpr std::pair<const char*, const char*> kGroups[] = {
    {"Run and follow jobs",
     "init submit clone list queue show watch logs wait diff"},
    {"Change jobs", "set hold release cancel retry delete"},
    {"Results", "generate report plot download export merge"},
    {"Before a job runs", "plan doctor info check sweep import schema"},
    {"Models and daemons", "model context login logout admin completion"},
};

// Verbs that have the rows of other verbs below them.
struct Umbrella {
  const char *name, *help, *below;
};
constexpr Umbrella kUmbrellas[] = {
    {"check", "Measure a job: smoke, profile, batch, devices",
     "smoke profile batch devices"},
    {"admin", "For admins: token, audit, drain, undrain, gc",
     "token audit drain undrain gc"},
};

// Words of other programs and of earlier releases.
Command::OtherNames OtherNames() {
  return {
      {"ls", "list"},
      {"ps", "list"},
      {"jobs", "list"},
      {"get", "show"},
      {"describe", "show"},
      {"status", "list"},
      {"top", "watch"},
      {"rm", "delete"},
      {"run", "submit"},
      {"start", "submit"},
      {"train", "submit"},
      {"stop", "cancel"},
      {"kill", "cancel --now"},
      {"checkpoints", "download ID --checkpoints"},
      {"move", "set ID --priority"},
      {"pin", "set ID --pin"},
      {"unpin", "set ID --unpin"},
      {"note", "set ID --note"},
      {"tag", "set ID --tag"},
      {"smoke", "check smoke"},
      {"profile", "check profile"},
      {"compare-devices", "check devices"},
      {"token", "admin token"},
      {"audit", "admin audit"},
      {"drain", "admin drain"},
      {"undrain", "admin undrain"},
      {"gc", "admin gc"},
      {"models", "model list"},
      {"pull", "model pull"},
      {"push", "model push"},
      {"resume", "retry"},
      {"pause", "hold"},
      {"tail", "logs -f"},
      {"version", "--version"},
      {"whoami", "info"},
  };
}

// Verbs that the command line names set *action.
void Add(const Verb& row, Command& above, Action* action) {
  Command* verb = above.add_subcommand(row.name, row.help);
  verb->fallthrough()->group("Verbs");
  for (const Verb& one : row.below) Add(one, *verb, action);
  if (row.declare == nullptr) {
    verb->require_subcommand(1);
  } else {
    verb->callback([=, run = row.declare(*verb)] { *action = run; });
  }
  verb->set_examples(row.examples);
}

std::vector<std::string> NamesIn(const char* text) {
  return absl::StrSplit(text, ' ');
}

// The rows of all sources by their names.
std::map<std::string, Verb> AllVerbs() {
  std::map<std::string, Verb> rows;
  for (VerbTable* table :
       {AccessVerbs, CompletionVerbs, DownloadVerbs, GenerateVerbs, InfoVerbs,
        InitVerbs, JobsVerbs, ModelVerbs, OfflineVerbs, ShowVerbs, StudyVerbs,
        SubmitVerbs, WatchVerbs}) {
    for (Verb& row : table()) rows.emplace(row.name, std::move(row));
  }
  for (const auto& [name, help, below] : kUmbrellas) {
    Verb above{name, help, nullptr};
    for (const std::string& one : NamesIn(below)) {
      above.below.push_back(std::move(rows.extract(one).mapped()));
    }
    rows.emplace(name, std::move(above));
  }
  return rows;
}

// Adds all rows in their groups.
void AddVerbs(const std::map<std::string, Verb>& rows, Command& app,
              Action* action) {
  size_t added = 0;
  for (const auto& [title, names] : kGroups) {
    for (const std::string& name : NamesIn(names)) {
      Add(rows.at(name), app, action);
      app.get_subcommand(name)->group(title);
      ++added;
    }
  }
  base::Check(rows.size() == added, "each verb has its place");
}

// doctor reports a daemon that cannot be reached as a finding.
bool FindsUnreachable(const std::string& verb) { return verb == "doctor"; }

int RunVerb(std::vector<std::string> args, std::ostream& out, std::ostream& err,
            const Terminal& terminal) {
  Command app(
      "Queue fine-tuning jobs on mpsd and follow them.\n"
      "`mpsctl help VERB` shows the options of a verb, with examples.",
      "mpsctl");
  const std::map<std::string, Verb> rows = AllVerbs();
  if (!args.empty() && args[0] == "help") {
    args.erase(args.begin());
    // A word that is no verb is answered as without "help".
    if (args.empty() || rows.contains(args[0])) args.emplace_back("--help");
  }
  GlobalOptions options;
  Action action;
  AddGlobalOptions(app, &options);
  AddVerbs(rows, app, &action);
  // Not before: a verb would have the same end.
  app.footer(absl::StrCat(JobIdHelp(), "\n\n", DaemonChoiceHelp(), "\n\n",
                          ExitCodeHelp()));
  app.require_subcommand(1);
  app.set_verb_label("VERB");
  // For the shells' completion scripts, not for users.
  if (args.size() >= 2 && args[0] == "complete" && args[1] == "--") {
    PrintWords(app, {args.begin() + 2, args.end()}, out);
    return static_cast<int>(ExitCode::kOk);
  }
  if (const auto code = app.Parse(args, OtherNames(), out, err)) return *code;
  const std::string verb = app.chosen()[0];
  const bool asks_daemon = rows.at(verb).calls_daemon;
  // A verb that calls no daemon runs even if the contexts are broken.
  absl::StatusOr<Address> address = FindAddress("", "");
  if (asks_daemon) {
    address = ChooseDaemon(options.daemon,
                           ContextStore(ContextStore::DefaultFolder()));
  }
  Connection daemon(address.ok() ? *address : FindAddress("", ""),
                    terminal.interrupt);
  const Console console{out, err, terminal, daemon, options.json};
  if (!address.ok()) {
    return static_cast<int>(console.BadInput(address.status()));
  }
  if (asks_daemon) {
    const absl::Status s = daemon.Connect();
    if (!s.ok() && !FindsUnreachable(verb)) {
      return static_cast<int>(console.FailToReach(s));
    }
  }
  return static_cast<int>(action(console));
}

}  // namespace

int Run(const std::vector<std::string>& args, std::ostream& out,
        std::ostream& err, const Terminal& terminal) {
  const int code = RunVerb(args, out, err, terminal);
  out.flush();
  if (out.good() || code != 0) return code;
  err << "mpsctl: cannot write all of the output: is its disk full, or was it "
         "closed?\n";
  return static_cast<int>(ExitCode::kOther);
}

}  // namespace mpsd::client
