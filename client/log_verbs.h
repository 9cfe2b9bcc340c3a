// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_LOG_VERBS_H_
#define MPSD_CLIENT_LOG_VERBS_H_

#include <string>
#include <vector>

#include "client/command_line.h"
#include "client/console.h"
#include "client/verbs.h"
#include "mpsd/v1/logbook.pb.h"

namespace mpsd::client {

// Each function adds its verb below `mpsctl log`, as those of verbs.h do.
// Defined in <function without Add>.cc.
void AddLogSearch(Command& log, Action* action);
void AddLogShow(Command& log, Action* action);
void AddLogDiff(Command& log, Action* action);
void AddLogNote(Command& log, Action* action);
void AddLogTag(Command& log, Action* action);
void AddLogExport(Command& log, Action* action);

// Finds records and prints a row for each, at most `limit`. Defined in
// log_search.cc.
ExitCode SearchLog(const Console& console, const std::string& query, int limit);

// All of one record. Defined in log_show.cc.
void PrintRecord(const Console& console, const v1::Record& record);

// A query of several words of the command line, as a shell hands them over. A
// word with spaces that is no term is a text to look for.
std::string JoinQuery(const std::vector<std::string>& words);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_LOG_VERBS_H_
