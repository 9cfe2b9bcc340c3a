// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_PROTO_TEXT_H_
#define MPSD_TESTS_SERVER_RPC_PROTO_TEXT_H_

#include <string>
#include <type_traits>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace mpsd::rpc {

// Has the fields that `text` names in protobuf's text format, and no others.
MATCHER_P(EqualsProto, text, text) {
  std::decay_t<arg_type> expected;
  if (!google::protobuf::TextFormat::ParseFromString(text, &expected)) {
    *result_listener << "which the text is no message for";
    return false;
  }
  std::string differences;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&differences);
  const bool equal = differencer.Compare(expected, arg);
  *result_listener << differences;
  return equal;
}

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_PROTO_TEXT_H_
