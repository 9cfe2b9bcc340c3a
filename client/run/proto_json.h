// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUN_PROTO_JSON_H_
#define MPSD_CLIENT_RUN_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <string>

namespace mpsd::client {

// `message` in Protocol Buffers' own JSON with the proto's names: fields that
// are 0 or empty are left out, int64 and numbers that are not finite are texts.
// The run document has it; what mpsctl prints is ToJson()'s
// (client/text/json.h).
std::string ProtoJson(const google::protobuf::Message& message);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUN_PROTO_JSON_H_
