// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_SHOWN_H_
#define MPSD_CORE_DATA_SHOWN_H_

namespace mpsd::data {

// Whether messages may say what stands in the data of this process' job. Not
// where whoever gave the job may not read the files themselves: those that were
// not uploaded with it. True until it is set, once, before any data are read.
bool ContentsShown();
void ShowContents(bool shown);

// What stands in the place of contents.
inline constexpr char kNotShown[] =
    "not shown, since the data were not uploaded with the job";

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_SHOWN_H_
