// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/completion.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/daemons/context_store.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

struct GlobalOptions {
  DaemonChoice daemon;
  bool json = false;
};

void AddGlobalOptions(Command& app, GlobalOptions* options) {
  app.add_option("--server", options->daemon.server,
                 "HOST:PORT, unix:PATH or /PATH of the daemon, or\n"
                 "ssh://[USER@]HOST[:PORT][/PATH] for one reached by ssh\n"
                 "(else MPSD_SERVER)")
      ->type_name("ADDRESS");
  app.add_option("--context", options->daemon.context,
                 "The daemon of this name that you logged in to\n"
                 "(else MPSD_CONTEXT, else the current context)")
      ->type_name("NAME");
  app.add_option("--state-dir", options->daemon.state_dir,
                 "The daemon's state folder, which holds its socket\n"
                 "(else MPSD_STATE_DIR, else mpsd's default)")
      ->type_name("DIR");
  app.add_flag("--json", options->json, "Print JSON, one object per line");
  app.set_version_flag("--version", "mpsctl " MPSD_VERSION);
}

void AddVerbs(Command& app, Action* action) {
  AddSubmit(app, action);
  AddClone(app, action);
  AddDiff(app, action);
  AddList(app, action);
  AddQueue(app, action);
  AddShow(app, action);
  AddNote(app, action);
  AddTag(app, action);
  AddWatch(app, action);
  AddPlot(app, action);
  AddReport(app, action);
  AddLogs(app, action);
  AddCancel(app, action);
  AddRetry(app, action);
  AddHold(app, action);
  AddRelease(app, action);
  AddMove(app, action);
  AddWait(app, action);
  AddDelete(app, action);
  AddPin(app, action);
  AddGc(app, action);
  AddCheckpoints(app, action);
  AddDownload(app, action);
  AddModel(app, action);
  AddPlan(app, action);
  AddSweep(app, action);
  AddSmoke(app, action);
  AddCompareDevices(app, action);
  AddProfile(app, action);
  AddImport(app, action);
  AddMerge(app, action);
  AddSchema(app, action);
  AddToken(app, action);
  AddAudit(app, action);
  AddLogin(app, action);
  AddLogout(app, action);
  AddContext(app, action);
  AddInfo(app, action);
  AddDoctor(app, action);
  AddDrain(app, action);
  AddUndrain(app, action);
  AddCompletion(app, action);
  for (Command* verb : app.verbs()) verb->fallthrough()->group("Verbs");
  app.require_subcommand(1);
  app.set_verb_label("VERB");
}

bool AsksDaemon(const std::string& verb) {
  for (const char* other : {"import", "merge", "schema", "login", "logout",
                            "context", "completion"}) {
    if (verb == other) return false;
  }
  return true;
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
  AddVerbs(app, &action);
  // For the shells' completion scripts, not for users.
  if (args.size() >= 2 && args[0] == "complete" && args[1] == "--") {
    PrintWords(app, {args.begin() + 2, args.end()}, out);
    return static_cast<int>(ExitCode::kOk);
  }
  if (const std::optional<int> code = app.Parse(args, out, err)) return *code;
  const std::string verb = app.chosen()[0];
  const bool asks_daemon = AsksDaemon(verb);
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
    return static_cast<int>(
        console.Fail(ExitCode::kBadInput, address.status(), ""));
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
