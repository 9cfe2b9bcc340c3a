// SPDX-License-Identifier: Apache-2.0
#include "server/store/event_body.h"

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/json_depth.h"
#include "core/report/report_json.h"
#include "server/jobs/job.h"

namespace mpsd::store {
namespace {

using jobs::EventFields;
using report::Json;
using report::JsonReader;
using report::JsonWriter;

// Writes the memory counters beside the step's other members. The field lists
// call a writer and a reader by their own types, so that these operators may
// hide JsonWriter's and JsonReader's.
// NOLINTBEGIN(bugprone-derived-method-shadowing-base-method)
class BodyWriter : public JsonWriter {
 public:
  using JsonWriter::JsonWriter;
  using JsonWriter::operator();

  void operator()(const char*, const report::MemoryCounters& value) {
    Fields(*this, value, &value);
  }
  void operator()(const char* name, jobs::State value) {
    (*this)(name, static_cast<int64_t>(value));
  }
  void operator()(const char* name, absl::Time value) {
    (*this)(name, absl::ToUnixMicros(value));
  }
};

class BodyReader : public JsonReader {
 public:
  explicit BodyReader(const Json& in)
      : JsonReader(in, "event", Missing::kDefault) {}
  using JsonReader::operator();

  void operator()(const char*, report::MemoryCounters& value) {
    Fields(*this, value, &value);
  }
  void operator()(const char* name, jobs::State& value) {
    int64_t number = 0;
    (*this)(name, number);
    const auto state = report::Numbered(jobs::kStates, number);
    if (!state) return IllTyped(name, "a state's number");
    value = *state;
  }
  void operator()(const char* name, absl::Time& value) {
    int64_t micros = 0;
    (*this)(name, micros);
    value = absl::FromUnixMicros(micros);
  }
};
// NOLINTEND(bugprone-derived-method-shadowing-base-method)

absl::Status Unreadable(const std::string& text) {
  return absl::DataLossError(
      absl::StrCat("the database holds an unreadable event: ", text));
}

template <typename Body>
std::string Encode(const Body& body) {
  Json object = Json::object();
  BodyWriter writer(object);
  EventFields(writer, body, &body);
  return report::Dump(object);
}

template <typename Body>
absl::StatusOr<Body> Decode(const std::string& text) {
  Body body{};
  const Json object = base::ParseTree<Json>(text);
  if (object.is_object()) {
    BodyReader reader(object);
    EventFields(reader, body, &body);
    if (reader.status().ok()) return body;
  }
  return Unreadable(text);
}

// Marks a member that has a column of its own.
constexpr char kColumn[] = "column";

// Whether a value has the field list of an event.
template <typename Value>
constexpr bool kIsBody = std::is_same_v<Value, jobs::Progress> ||
                         std::is_same_v<Value, jobs::Evaluated>;

template <typename Body>
absl::StatusOr<EventBody> DecodeAs(const std::string& text) {
  absl::StatusOr<Body> body = Decode<Body>(text);
  if (!body.ok()) return body.status();
  return EventBody(*std::move(body));
}

}  // namespace

int KindOf(const EventBody& body) { return static_cast<int>(body.index()) + 1; }

std::string EncodeBody(const EventBody& body) {
  return std::visit([](const auto& b) { return Encode(b); }, body);
}

absl::StatusOr<EventBody> DecodeBody(int kind, const std::string& text) {
  switch (kind) {
    case 1:
      return DecodeAs<jobs::StateChanged>(text);
    case kProgressKind:
      return DecodeAs<jobs::Progress>(text);
    case 3:
      return DecodeAs<jobs::Evaluated>(text);
    case 4:
      return DecodeAs<jobs::Checkpoint>(text);
    case 5:
      return DecodeAs<jobs::Note>(text);
    default:
      return absl::DataLossError(
          absl::StrCat("the database holds an event of unknown kind ", kind));
  }
}

template <typename Value>
std::string EncodeColumn(const Value& value) {
  if constexpr (kIsBody<Value>) {
    return Encode(value);
  } else {
    Json object = Json::object();
    JsonWriter writer(object);
    writer(kColumn, value);
    return report::Dump(object[kColumn]);
  }
}

template <typename Value>
absl::StatusOr<Value> DecodeColumn(const std::string& text) {
  if constexpr (kIsBody<Value>) {
    return Decode<Value>(text);
  } else {
    Json object = Json::object();
    object[kColumn] = base::ParseTree<Json>(text);
    Value value;
    JsonReader reader(object, "row", JsonReader::Missing::kError);
    reader(kColumn, value);
    if (!reader.status().ok()) return Unreadable(text);
    return value;
  }
}

template std::string EncodeColumn(const jobs::Progress&);
template std::string EncodeColumn(const jobs::Evaluated&);
template std::string EncodeColumn(const jobs::Metrics&);
template std::string EncodeColumn(const std::vector<std::string>&);
template absl::StatusOr<jobs::Progress> DecodeColumn(const std::string&);
template absl::StatusOr<jobs::Evaluated> DecodeColumn(const std::string&);
template absl::StatusOr<jobs::Metrics> DecodeColumn(const std::string&);
template absl::StatusOr<std::vector<std::string>> DecodeColumn(
    const std::string&);

}  // namespace mpsd::store
