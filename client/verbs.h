// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_VERBS_H_
#define MPSD_CLIENT_VERBS_H_

#include <functional>

#include "client/console.h"

namespace CLI {
class App;
}

namespace mpsd::client {

using Action = std::function<ExitCode(const Console&)>;

// Each function adds its verb to `app`. Parsing a command line with the verb
// sets *action to the verb's action. Defined in <verb>.cc.
void AddSubmit(CLI::App& app, Action* action);
void AddClone(CLI::App& app, Action* action);
void AddDiff(CLI::App& app, Action* action);
void AddList(CLI::App& app, Action* action);
void AddQueue(CLI::App& app, Action* action);
void AddShow(CLI::App& app, Action* action);
void AddWatch(CLI::App& app, Action* action);
void AddPlot(CLI::App& app, Action* action);
void AddReport(CLI::App& app, Action* action);
void AddLogs(CLI::App& app, Action* action);
void AddLog(CLI::App& app, Action* action);
void AddCancel(CLI::App& app, Action* action);
void AddRetry(CLI::App& app, Action* action);
void AddHold(CLI::App& app, Action* action);
void AddRelease(CLI::App& app, Action* action);
void AddMove(CLI::App& app, Action* action);
void AddWait(CLI::App& app, Action* action);
void AddDrain(CLI::App& app, Action* action);
void AddUndrain(CLI::App& app, Action* action);
void AddCheckpoints(CLI::App& app, Action* action);
void AddDelete(CLI::App& app, Action* action);
void AddPin(CLI::App& app, Action* action);  // and unpin
void AddGc(CLI::App& app, Action* action);
void AddDownload(CLI::App& app, Action* action);
void AddModel(CLI::App& app, Action* action);
void AddPlan(CLI::App& app, Action* action);
void AddSweep(CLI::App& app, Action* action);
void AddSmoke(CLI::App& app, Action* action);
void AddCompareDevices(CLI::App& app, Action* action);
void AddParity(CLI::App& app, Action* action);
void AddProfile(CLI::App& app, Action* action);
void AddImport(CLI::App& app, Action* action);
void AddMerge(CLI::App& app, Action* action);
void AddSchema(CLI::App& app, Action* action);
void AddToken(CLI::App& app, Action* action);
void AddAudit(CLI::App& app, Action* action);
void AddLogin(CLI::App& app, Action* action);
void AddLogout(CLI::App& app, Action* action);
void AddContext(CLI::App& app, Action* action);
void AddInfo(CLI::App& app, Action* action);
void AddDoctor(CLI::App& app, Action* action);
void AddCompletion(CLI::App& app, Action* action);

// The name of a positional argument that is a job's id.
inline constexpr char kJobIdName[] = "ID";
// That of one that is a context's name.
inline constexpr char kContextName[] = "CONTEXT";
// That of one that is the name of a model which mpsd has.
inline constexpr char kModelName[] = "MODEL";

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_VERBS_H_
