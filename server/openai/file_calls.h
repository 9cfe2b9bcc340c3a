// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_FILE_CALLS_H_
#define MPSD_SERVER_OPENAI_FILE_CALLS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/http/message.h"
#include "server/openai/desk.h"
#include "server/openai/objects.h"
#include "server/openai/page.h"

namespace mpsd::openai {

// The calls of /v1/files but for the upload. They show a user's own files, and
// by its id each file of the result of a job whose results the caller may read.

http::Response ListFiles(const Desk& desk, const http::Request& request,
                         const Page& page);
http::Response GetFile(const Desk& desk, const http::Request& request,
                       const std::string& id);
http::Response DeleteFile(const Desk& desk, const http::Request& request,
                          const std::string& id);
// The file's bytes.
http::Response GetContent(const Desk& desk, const http::Request& request,
                          const std::string& id);

// The ids of the files of a job's result; none where it has no result, or one
// that cannot be read now.
std::vector<std::string> ResultFileIds(const Desk& desk, const v1::Job& job);

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_FILE_CALLS_H_
