// SPDX-License-Identifier: Apache-2.0
#include "client/run/proto_json.h"

#include <google/protobuf/util/json_util.h>

namespace mpsd::client {

std::string ProtoJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  // A time beyond the year 9999 alone has no JSON.
  return status.ok() ? text : "{}";
}

}  // namespace mpsd::client
