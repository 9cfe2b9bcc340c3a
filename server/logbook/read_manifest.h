// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOGBOOK_READ_MANIFEST_H_
#define MPSD_SERVER_LOGBOOK_READ_MANIFEST_H_

#include <string>

#include "mpsd/v1/logbook.pb.h"

namespace mpsd::logbook {

// Adds to `record` what a run's own run.json (core/train/manifest.h) tells of
// environment, shape, memory, fallbacks and data. A worker wrote `text`, and
// the worker may have been made to write anything: members of other types, and
// texts that are longer than they need to be, are left out.
void ReadManifest(const std::string& text, v1::Record& record);

}  // namespace mpsd::logbook

#endif  // MPSD_SERVER_LOGBOOK_READ_MANIFEST_H_
