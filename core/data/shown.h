// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_SHOWN_H_
#define MPSD_CORE_DATA_SHOWN_H_

namespace mpsd::data {

// Whether messages may quote the data of this process's job. False for files
// that were not uploaded with the job: the submitter might not be allowed to
// read them. True until ShowContents sets it, which must happen before any data
// are read.
bool ContentsShown();
void ShowContents(bool shown);

// The text that replaces contents in messages.
inline constexpr char kNotShown[] =
    "not shown, since the data were not uploaded with the job";

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_SHOWN_H_
