// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_JSON_H_
#define MPSD_CLIENT_TEXT_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace mpsd::client {

// `message` in the JSON of mpsctl: the proto's snake_case names in the proto's
// order, numbers as numbers, states by their short name ("QUEUED"), times as
// RFC 3339 in UTC. Every field is present, with null for an absent one; a oneof
// shows only the field that is set. `spec_json` becomes `spec`, an object.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_JSON_H_
