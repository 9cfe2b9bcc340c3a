// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_VERBS_H_
#define MPSD_CLIENT_VERBS_H_

#include <functional>

#include "client/command_line.h"
#include "client/console.h"

namespace mpsd::client {

using Action = std::function<ExitCode(const Console&)>;

// Each function adds its verb to `app`. Parsing a command line with the verb
// sets *action to the verb's action. Defined in <verb>.cc.
void AddSubmit(Command& app, Action* action);
void AddClone(Command& app, Action* action);
void AddDiff(Command& app, Action* action);
void AddList(Command& app, Action* action);
void AddQueue(Command& app, Action* action);
void AddShow(Command& app, Action* action);
void AddNote(Command& app, Action* action);
void AddTag(Command& app, Action* action);
void AddWatch(Command& app, Action* action);
void AddPlot(Command& app, Action* action);
void AddReport(Command& app, Action* action);
void AddLogs(Command& app, Action* action);
void AddCancel(Command& app, Action* action);
void AddRetry(Command& app, Action* action);
void AddHold(Command& app, Action* action);
void AddRelease(Command& app, Action* action);
void AddMove(Command& app, Action* action);
void AddWait(Command& app, Action* action);
void AddDrain(Command& app, Action* action);
void AddUndrain(Command& app, Action* action);
void AddCheckpoints(Command& app, Action* action);
void AddDelete(Command& app, Action* action);
void AddPin(Command& app, Action* action);  // and unpin
void AddGc(Command& app, Action* action);
void AddDownload(Command& app, Action* action);
void AddModel(Command& app, Action* action);
void AddPlan(Command& app, Action* action);
void AddSweep(Command& app, Action* action);
void AddSmoke(Command& app, Action* action);
void AddCompareDevices(Command& app, Action* action);
void AddProfile(Command& app, Action* action);
void AddImport(Command& app, Action* action);
void AddMerge(Command& app, Action* action);
void AddSchema(Command& app, Action* action);
void AddToken(Command& app, Action* action);
void AddAudit(Command& app, Action* action);
void AddLogin(Command& app, Action* action);
void AddLogout(Command& app, Action* action);
void AddContext(Command& app, Action* action);
void AddInfo(Command& app, Action* action);
void AddDoctor(Command& app, Action* action);
void AddCompletion(Command& app, Action* action);

// The name of a positional argument that is a job's id.
inline constexpr char kJobIdName[] = "ID";
// The name of one that is a context's name.
inline constexpr char kContextName[] = "CONTEXT";
// The name of one that is a model's name in mpsd.
inline constexpr char kModelName[] = "MODEL";

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_VERBS_H_
