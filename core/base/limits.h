// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_LIMITS_H_
#define MPSD_CORE_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

// What clients, workers and the files of either may bring, before anything
// recurses over it, copies or stores it. The one table: code and the comments
// of proto/ quote it, tests hold each bound at its value and one past it.
namespace mpsd::limits {

// --- JSON, wherever it comes from --------------------------------------------
inline constexpr int kJsonDepth = 64;  // arrays and objects within each other
// Values in a text that mpsd reads with line numbers: job.json, config.json.
inline constexpr size_t kJsonValues = 300'000;
inline constexpr size_t kJsonNames = 4096;      // of one object, but see below
inline constexpr size_t kJsonNameBytes = 4096;  // of a member's name

// --- Submit ------------------------------------------------------------------
inline constexpr size_t kSpecBytes = 1 << 20;        // spec_json as it comes
inline constexpr size_t kStoredSpecBytes = 2 << 20;  // with defaults and paths
inline constexpr size_t kNameBytes = 256;            // `name` of the spec
inline constexpr size_t kOwnerBytes = 256;
inline constexpr size_t kKeyBytes = 128;  // idempotency_key
inline constexpr size_t kLabels = 64;
inline constexpr size_t kLabelKeyBytes = 128;
inline constexpr size_t kLabelValueBytes = 256;
inline constexpr size_t kInputs = 50'000;        // uploaded files of a job
inline constexpr size_t kPathBytes = 4096;       // of an input's path
inline constexpr size_t kPathParts = 64;         // between slashes
inline constexpr size_t kPathsBytes = 16 << 20;  // of all inputs' paths
inline constexpr size_t kIdBytes = 64;

// Names in lora.modules_to_save, in quantization_config.llm_int8_skip_modules.
inline constexpr size_t kModuleNames = 256;
// Of matching lora.target_modules, rank_pattern or alpha_pattern with the
// modules of a model: a simple pattern takes some hundred for each module.
inline constexpr int64_t kMatchSteps = 20'000'000;

// --- List --------------------------------------------------------------------
inline constexpr int kPageSize = 500;          // jobs of a page
inline constexpr int kDefaultPageSize = 50;    // where none is asked for
inline constexpr size_t kPageBytes = 1 << 20;  // a page ends past these
inline constexpr int kFilterStates = 5;
inline constexpr int kFilterLabels = 16;
inline constexpr size_t kPageTokenBytes = 128;
inline constexpr size_t kIdPart = 4;      // characters of an id, to find a job
inline constexpr size_t kWholeId = 26;    // characters of a job's id
inline constexpr size_t kFoundJobs = 20;  // named where a part fits several

// --- artifacts ---------------------------------------------------------------
inline constexpr int64_t kChunkBytes = 1 << 20;  // of a message with data
inline constexpr int kBlobNames = 1000;          // of a FindBlobs
inline constexpr int kBatchBlobs = 20'000;       // of an UploadBatch

// --- what a worker says ------------------------------------------------------
// A failure's text, at the worker and again in the daemon.
inline constexpr size_t kMessageBytes = 8 << 10;
inline constexpr size_t kStageBytes = 256;    // "loading model"
inline constexpr size_t kVersionBytes = 128;  // of the worker, torch, a device
inline constexpr size_t kWarnings = 50;       // of a job
inline constexpr size_t kWarningBytes = 2000;
inline constexpr size_t kMetrics = 64;  // of an evaluation
inline constexpr size_t kMetricNameBytes = 128;
inline constexpr size_t kFallbackOps = 256;        // of a step
inline constexpr size_t kRemovedPaths = 1000;      // of a checkpoint's message
inline constexpr size_t kMatrixBytes = 512 << 10;  // confusion_matrix_json

// --- what an error quotes ----------------------------------------------------
inline constexpr size_t kQuotedBytes = 80;  // a label, a value, a name

// --- files of a model that mpsd reads ----------------------------------------
inline constexpr size_t kModelFileBytes = 16 << 20;  // config.json
inline constexpr size_t kModelLabels = 100'000;      // id2label, label2id
inline constexpr int64_t kModelLayers = 10'000;
// Of a width, a vocabulary, a number of heads or positions.
inline constexpr int64_t kModelSize = int64_t{1} << 31;
inline constexpr int64_t kImageSide = 1 << 15;  // pixels; of a patch too

}  // namespace mpsd::limits

#endif  // MPSD_CORE_BASE_LIMITS_H_
