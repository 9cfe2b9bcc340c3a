// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_CLEAN_REPORT_H_
#define MPSD_SERVER_SUPERVISOR_CLEAN_REPORT_H_

#include <string>
#include <string_view>

#include "core/report/report.h"

namespace mpsd::supervisor {

// Makes a worker's report safe to store and show, because a worker repeats the
// content of users' files: unprintable characters are escaped in every text but
// paths, and texts and lists are cut to the bounds of core/base/limits.h. Only
// a failure's message may have several lines. Clean() walks the report's field
// list, so that a text that is added to a report is clean from the start.
void Clean(report::Progress& progress);
void Clean(report::Evaluated& evaluated);
void Clean(report::Checkpointed& checkpointed);
void Clean(report::Failure& failure);
// Leaves out a confusion matrix that is too large or is not valid JSON; returns
// false then.
bool Clean(report::Outcome& outcome);

// Texts outside the reports. `CleanText`: a worker's text, from its log or a
// breach of the protocol, as part of a message.
std::string CleanText(std::string_view text);
std::string CleanWarning(std::string_view text);
std::string CleanStage(std::string_view text);
std::string CleanVersion(std::string_view text);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_CLEAN_REPORT_H_
