// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/completion.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/daemons/context_store.h"
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
                 "ssh://[USER@]HOST[:PORT][/PATH] for one reached by ssh\n"
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

// In the order of the help.
constexpr const char* kOrder[] = {"init",
                                  "submit",
                                  "clone",
                                  "diff",
                                  "list",
                                  "queue",
                                  "show",
                                  "note",
                                  "tag",
                                  "watch",
                                  "plot",
                                  "report",
                                  "logs",
                                  "cancel",
                                  "retry",
                                  "hold",
                                  "release",
                                  "move",
                                  "wait",
                                  "delete",
                                  "pin",
                                  "unpin",
                                  "gc",
                                  "checkpoints",
                                  "download",
                                  "model",
                                  "plan",
                                  "sweep",
                                  "smoke",
                                  "compare-devices",
                                  "profile",
                                  "import",
                                  "merge",
                                  "schema",
                                  "token",
                                  "audit",
                                  "login",
                                  "logout",
                                  "context",
                                  "info",
                                  "doctor",
                                  "drain",
                                  "undrain",
                                  "completion"};

// Verbs that the command line names set *action.
void Add(const Verb& row, Command& above, Action* action) {
  Command* verb = above.add_subcommand(row.name, row.help)->fallthrough();
  for (const Verb& one : row.below) Add(one, *verb, action);
  if (row.declare == nullptr) {
    verb->require_subcommand(1);
  } else {
    verb->callback([=, run = row.declare(*verb)] { *action = run; });
  }
}

// The rows of all sources by their names.
std::map<std::string, Verb> AllVerbs() {
  std::map<std::string, Verb> rows;
  for (VerbTable* table : {AccessVerbs, CompletionVerbs, DownloadVerbs,
                           InfoVerbs, InitVerbs, JobsVerbs, ModelVerbs,
                           OfflineVerbs, ShowVerbs, StudyVerbs, SubmitVerbs,
                           WatchVerbs}) {
    for (Verb& row : table()) rows.emplace(row.name, std::move(row));
  }
  return rows;
}

// doctor reports a daemon that cannot be reached as a finding.
bool FindsUnreachable(const std::string& verb) { return verb == "doctor"; }

int RunVerb(const std::vector<std::string>& args, std::ostream& out,
            std::ostream& err, const Terminal& terminal) {
  Command app("Queue fine-tuning jobs on mpsd and follow them.", "mpsctl");
  app.footer(absl::StrCat(DaemonChoiceHelp(), "\n\n", ExitCodeHelp()));
  GlobalOptions options;
  Action action;
  AddGlobalOptions(app, &options);
  const std::map<std::string, Verb> rows = AllVerbs();
  base::Check(rows.size() == std::size(kOrder), "each verb has its place");
  for (const char* name : kOrder) Add(rows.at(name), app, &action);
  for (Command* verb : app.verbs()) verb->group("Verbs");
  app.require_subcommand(1);
  app.set_verb_label("VERB");
  // For the shells' completion scripts, not for users.
  if (args.size() >= 2 && args[0] == "complete" && args[1] == "--") {
    PrintWords(app, {args.begin() + 2, args.end()}, out);
    return static_cast<int>(ExitCode::kOk);
  }
  if (const std::optional<int> code = app.Parse(args, out, err)) return *code;
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
