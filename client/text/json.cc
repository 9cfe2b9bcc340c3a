// SPDX-License-Identifier: Apache-2.0
#include "client/text/json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/text.h"

namespace mpsd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;
using Json = nlohmann::ordered_json;

// QUEUED for JOB_STATE_QUEUED of the enum JobState.
Json PlainName(const EnumValueDescriptor& value) {
  std::string prefix;
  for (char c : std::string(value.type()->name())) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  prefix += '_';
  const absl::string_view name = value.name();
  if (name == prefix + "UNSPECIFIED") return nullptr;
  return std::string(absl::StripPrefix(name, prefix));
}

Json TimeText(const Timestamp& time) {
  const absl::Time t =
      absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", t, absl::UTCTimeZone());
}

Json OfMessage(const Message& message) {
  const auto* time = dynamic_cast<const Timestamp*>(&message);
  return time == nullptr ? ToJson(message) : TimeText(*time);
}

Json Single(const Message& m, const FieldDescriptor& field) {
  const Reflection& get = *m.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get.GetInt32(m, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return get.GetInt64(m, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get.GetUInt32(m, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get.GetUInt64(m, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get.GetDouble(m, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get.GetFloat(m, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get.GetBool(m, &field);
    case FieldDescriptor::CPPTYPE_STRING:
      return get.GetString(m, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return PlainName(*get.GetEnum(m, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return OfMessage(get.GetMessage(m, &field));
  }
  return nullptr;
}

// The API's maps have string keys. Sorted, because protobuf's order is random.
Json Map(const Message& m, const FieldDescriptor& field) {
  nlohmann::json object = nlohmann::json::object();
  const Reflection& get = *m.GetReflection();
  for (int i = 0; i < get.FieldSize(m, &field); ++i) {
    const Message& entry = get.GetRepeatedMessage(m, &field, i);
    const Descriptor& type = *entry.GetDescriptor();
    object[Single(entry, *type.map_key()).get<std::string>()] =
        Single(entry, *type.map_value());
  }
  return Json(object);
}

Json OfList(const Message& m, const FieldDescriptor& field, int i) {
  const Reflection& get = *m.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get.GetRepeatedInt32(m, &field, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return get.GetRepeatedInt64(m, &field, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get.GetRepeatedUInt32(m, &field, i);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get.GetRepeatedUInt64(m, &field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get.GetRepeatedDouble(m, &field, i);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get.GetRepeatedFloat(m, &field, i);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get.GetRepeatedBool(m, &field, i);
    case FieldDescriptor::CPPTYPE_STRING:
      return get.GetRepeatedString(m, &field, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return PlainName(*get.GetRepeatedEnum(m, &field, i));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return OfMessage(get.GetRepeatedMessage(m, &field, i));
  }
  return nullptr;
}

Json List(const Message& m, const FieldDescriptor& field) {
  Json array = Json::array();
  const Reflection& get = *m.GetReflection();
  for (int i = 0; i < get.FieldSize(m, &field); ++i) {
    array.push_back(OfList(m, field, i));
  }
  return array;
}

void Put(const Message& m, const FieldDescriptor& field, Json& object) {
  // A std::string& here, a view in newer versions of Protocol Buffers.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::string name(field.name());
  if (field.is_map()) {
    object[name] = Map(m, field);
  } else if (field.is_repeated()) {
    object[name] = List(m, field);
  } else if (field.has_presence() && !m.GetReflection()->HasField(m, &field)) {
    if (field.real_containing_oneof() == nullptr) object[name] = nullptr;
  } else if (absl::EndsWith(name, "_json")) {
    const std::string text = m.GetReflection()->GetString(m, &field);
    Json parsed = base::ParseTree<Json>(text);
    object[name.substr(0, name.size() - 5)] =
        parsed.is_discarded() ? Json(nullptr) : parsed;
  } else {
    object[name] = Single(m, field);
  }
}

}  // namespace

Json ToJson(const Message& message) {
  Json object = Json::object();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    Put(message, *type.field(i), object);
  }
  return object;
}

}  // namespace mpsd::client
