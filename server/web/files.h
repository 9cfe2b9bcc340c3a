// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_WEB_FILES_H_
#define MPSD_SERVER_WEB_FILES_H_

#include <string>

namespace mpsd::web {

// A file of server/web/page, embedded at build time.
struct File {
  const char* name;
  const char* content_type;
  const char* text;
};

// Null where there is no such file.
const File* FindFile(const std::string& name);

}  // namespace mpsd::web

#endif  // MPSD_SERVER_WEB_FILES_H_
