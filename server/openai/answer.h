// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_ANSWER_H_
#define MPSD_SERVER_OPENAI_ANSWER_H_

#include <string>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "server/http/message.h"

namespace mpsd::openai {

using Json = nlohmann::ordered_json;

// 200 with the object. Text that is not UTF-8 is repaired.
http::Response JsonAnswer(const Json& object);

// {"object": "list", "data": […], "has_more": …}
http::Response ListAnswer(Json::array_t data, bool has_more);

// What a status is in HTTP, in the shape of OpenAI's errors:
//   {"error": {"message": …, "type": …, "param": …, "code": …}}
// `param` is the field with which the message begins ("training_file: …"), else
// null. Says where a client that tries again by itself does so for nothing.
http::Response ErrorAnswer(const absl::Status& status);

// 413, for a body that is no file.
http::Response TooLargeAnswer();

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_ANSWER_H_
