// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUNBOOK_PAGE_H_
#define MPSD_CLIENT_RUNBOOK_PAGE_H_

#include <map>
#include <string>

#include "mpsd/v1/runbook.pb.h"

namespace mpsd::client {

// The final gate of the runbook: nobody promises a machine's throughput
// without a proof of its architecture, a log of its device, a sweep of batches
// and a curve of memory. Fills in `proofs` and `verdict` from the steps.
void JudgeRunbook(v1::Runbook* runbook);

// The page "fit to promise". Texts of others are escaped; the HTML is one file
// without scripts and without anything from elsewhere.
std::string RunbookMarkdown(const v1::Runbook& runbook);
std::string RunbookHtml(const v1::Runbook& runbook);
// The charts that the Markdown shows, by the names of their files beside it;
// the HTML has them within.
std::map<std::string, std::string> RunbookPictures(const v1::Runbook& runbook);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUNBOOK_PAGE_H_
