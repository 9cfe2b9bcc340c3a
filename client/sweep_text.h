// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SWEEP_TEXT_H_
#define MPSD_CLIENT_SWEEP_TEXT_H_

#include <ostream>
#include <string>
#include <vector>

#include "mpsd/v1/sweep.pb.h"

// A sweep for people and for spreadsheets.
namespace mpsd::client {

// Children that have ended, deleted ones among them.
int EndedChildren(const v1::Sweep& sweep);
bool HasEnded(const v1::Sweep& sweep);

// "4/9 done, loss 0.5123", with the best value, where there is one.
std::string SweepProgress(const v1::Sweep& sweep);

// The parameters as a table heads its columns: the fields' last parts, where
// these differ.
std::vector<std::string> ParameterNames(const v1::Sweep& sweep);

// A child's value without the quotes of a text.
std::string ValueText(const std::string& json);

// What the sweep is, the ranking, and the best child. Lines are cut to
// `columns`; 0: not at all.
void PrintSweep(const v1::Sweep& sweep, int columns, std::ostream& out);

// The ranking as comma-separated values, with a line of names.
std::string SweepCsv(const v1::Sweep& sweep);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SWEEP_TEXT_H_
