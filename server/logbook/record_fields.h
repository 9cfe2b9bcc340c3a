// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOGBOOK_RECORD_FIELDS_H_
#define MPSD_SERVER_LOGBOOK_RECORD_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace mpsd::logbook {

// What a value of a field is, and so how a query may write one.
enum class FieldType {
  kText,
  kKind,     // the number of a jobs::JobKind; 0: written by hand
  kState,    // that of a jobs::State
  kVerdict,  // that of a v1::Verdict
  kNumber,
  kBytes,    // also 4GB, 512MiB
  kSeconds,  // also 90s, 10m, 2h, 1d
};

// A field of a record that queries compare, and its column of the table
// `records`. The columns' order is that of the table's.
struct RecordField {
  std::string_view name, column;
  FieldType type = FieldType::kText;
  std::string_view about;  // for people
};

inline constexpr RecordField kRecordFields[] = {
    {"kind", "kind", FieldType::kKind,
     "training, probe, batch_sweep, device_comparison, profile, smoke, parity "
     "or note"},
    {"state", "state", FieldType::kState, "succeeded, failed or cancelled"},
    {"verdict", "verdict", FieldType::kVerdict, "a study's: pass, warn, fail"},
    {"eval_loss", "eval_loss", FieldType::kNumber, "of the last evaluation"},
    {"best_loss", "best_loss", FieldType::kNumber, "of the best evaluation"},
    {"train_loss", "train_loss", FieldType::kNumber, "mean over the run"},
    {"steps", "steps", FieldType::kNumber, "that were done"},
    {"batch", "batch", FieldType::kNumber, "rows of an optimizer step"},
    {"attempts", "attempts", FieldType::kNumber, "workers that were started"},
    {"fallbacks", "fallbacks", FieldType::kNumber,
     "operators that ran on the CPU"},
    {"pauses", "pauses", FieldType::kNumber, "how often it was paused"},
    {"parameters", "parameters", FieldType::kNumber, "trainable ones"},
    {"rows", "row_count", FieldType::kNumber, "of the training data"},
    {"tokens", "tokens", FieldType::kNumber, "of the training data"},
    {"peak", "peak_bytes", FieldType::kBytes, "the device memory's peak"},
    {"swap", "swap_bytes", FieldType::kBytes, "the most swap in use"},
    {"queue", "queue_seconds", FieldType::kSeconds, "waited for the device"},
    {"load", "load_seconds", FieldType::kSeconds, "until the first step"},
    {"first_step", "first_step_seconds", FieldType::kSeconds, "took"},
    {"step", "step_seconds", FieldType::kSeconds, "a steady step, the median"},
    {"device_time", "device_seconds", FieldType::kSeconds, "held the device"},
    {"paused", "pause_seconds", FieldType::kSeconds, "all pauses together"},
    {"name", "name", FieldType::kText, "the job's"},
    {"model", "model", FieldType::kText, "as the spec names it"},
    {"device", "device", FieldType::kText, "cpu, cuda or mps"},
    {"reason", "reason", FieldType::kText, "Done, OutOfMemory, Crashed …"},
    {"task", "task", FieldType::kText, "CAUSAL_LM, SEQ_CLS, IMAGE_CLS"},
    {"dtype", "dtype", FieldType::kText, "float32 or bfloat16"},
    {"torch", "torch", FieldType::kText, "its version"},
    {"version", "version", FieldType::kText, "mpsd's"},
    {"commit", "build", FieldType::kText, "mpsd's"},
    {"platform", "platform", FieldType::kText, "system and processor"},
    {"sweep", "sweep", FieldType::kText, "the id of the sweep that made it"},
    {"power", "power", FieldType::kText, "seen: mains, battery, low_power"},
    {"thermal", "thermal", FieldType::kText, "seen: nominal, heavy …"},
    {"pressure", "pressure", FieldType::kText, "memory's: normal, warn …"},
    {"request", "request", FieldType::kText, "the request's SHA-256"},
    {"data", "data", FieldType::kText, "the training data's SHA-256"},
    {"footprint", "footprint_bytes", FieldType::kBytes,
     "the most memory of the worker's process"},
    {"round_trip", "round_trip_seconds", FieldType::kSeconds,
     "between the client and mpsd"},
};

// Fields that stand in front of these columns, because every entry has them.
inline constexpr RecordField kIdField = {"id", "id", FieldType::kText,
                                         "the job's"};
inline constexpr RecordField kOwnerField = {"owner", "owner", FieldType::kText,
                                            "who submitted it"};

// Null where no field has the name.
const RecordField* FieldNamed(std::string_view name);

// The name of the field that was probably meant; nullopt where none is like it.
std::optional<std::string_view> NearestField(std::string_view name);

// A column's value; std::monostate: not told.
using FieldValue = std::variant<std::monostate, int64_t, double, std::string>;

}  // namespace mpsd::logbook

#endif  // MPSD_SERVER_LOGBOOK_RECORD_FIELDS_H_
