// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_CLEAN_REPORT_H_
#define MPSD_SERVER_SUPERVISOR_CLEAN_REPORT_H_

#include <string>
#include <string_view>

#include "core/report/report.h"

namespace mpsd::supervisor {

// A worker repeats what stands in files that users sent: in every text of a
// report but its paths what is not printable is written out, and texts and
// lists are cut to the bounds of core/base/limits.h. Only a failure's message
// may have several lines. Works by the report's field list, so that a text that
// is added to a report is clean from the start.
void Clean(report::Progress& progress);
void Clean(report::Evaluated& evaluated);
void Clean(report::Checkpointed& checkpointed);
void Clean(report::Failure& failure);
// A confusion matrix that is too large, or no JSON to be read, is left out.
// Returns false where it was.
bool Clean(report::Outcome& outcome);

// Texts beside the reports. `CleanText`: what a worker wrote elsewhere, to its
// log or against the protocol, as part of a message.
std::string CleanText(std::string_view text);
std::string CleanWarning(std::string_view text);
std::string CleanStage(std::string_view text);
std::string CleanVersion(std::string_view text);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_CLEAN_REPORT_H_
