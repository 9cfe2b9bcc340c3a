// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/record_fields.h"

#include <string>
#include <vector>

#include "core/spec/field_names.h"

namespace mpsd::logbook {

const RecordField* FieldNamed(std::string_view name) {
  if (name == kIdField.name) return &kIdField;
  if (name == kOwnerField.name) return &kOwnerField;
  for (const RecordField& field : kRecordFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::optional<std::string_view> NearestField(std::string_view name) {
  std::vector<std::string_view> names = {kIdField.name, kOwnerField.name};
  for (const RecordField& field : kRecordFields) names.push_back(field.name);
  return spec::NearestName(name, names);
}

}  // namespace mpsd::logbook
