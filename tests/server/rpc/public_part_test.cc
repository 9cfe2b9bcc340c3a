// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/public_part.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using ::testing::UnorderedElementsAre;

void FillIn(Message& message);

void FillOne(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      FillIn(many ? *reflection.AddMessage(&message, &field)
                  : *reflection.MutableMessage(&message, &field));
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      many ? reflection.AddString(&message, &field, "s")
           : reflection.SetString(&message, &field, "s");
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field, true);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection.SetDouble(&message, &field, 1.5);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      reflection.SetInt32(&message, &field, 1);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      reflection.SetInt64(&message, &field, 1);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      many ? reflection.AddEnumValue(&message, &field, 1)
           : reflection.SetEnumValue(&message, &field, 1);
      break;
    default:
      ADD_FAILURE() << field.full_name() << ": a type this test knows not";
  }
}

// Sets every field of the message, and of those in it.
void FillIn(Message& message) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    FillOne(message, *message.GetDescriptor()->field(i));
  }
}

std::set<std::string> SetFields(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::set<std::string> names;
  for (const FieldDescriptor* field : fields) names.insert(field->name());
  return names;
}

TEST(KeepPublicPart, ClearsAllButThese) {
  v1::Job job;
  FillIn(job);
  ASSERT_EQ(static_cast<int>(SetFields(job).size()),
            v1::Job::descriptor()->field_count());
  KeepPublicPart(job);
  EXPECT_THAT(SetFields(job),
              UnorderedElementsAre("id", "state", "cancel_requested", "owner",
                                   "priority", "kind", "attempt",
                                   "device_seconds", "create_time",
                                   "start_time", "end_time", "not_before",
                                   "queue_position", "pause", "progress"));
  EXPECT_THAT(SetFields(job.progress()),
              UnorderedElementsAre("step", "total_steps", "eta_seconds"));
}

TEST(KeepPublicPart, AddsNothing) {
  v1::Job job;
  job.set_id("a");
  job.set_name("secret");
  KeepPublicPart(job);
  EXPECT_THAT(SetFields(job), UnorderedElementsAre("id"));
}

}  // namespace
}  // namespace mpsd::rpc
