// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_LIMITS_H_
#define MPSD_CORE_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

// Bounds on what clients, workers and their files may send, checked before
// anything recurses over the data, copies or stores them. This is the one
// table: code and the comments of proto/ quote it, tests hold each bound at its
// value and one past it.
namespace mpsd::limits {

// --- JSON, wherever it comes from --------------------------------------------
inline constexpr int kJsonDepth = 64;  // arrays and objects within each other
// Values in a text that mpsd reads with line numbers: job.json, config.json.
inline constexpr size_t kJsonValues = 300'000;
inline constexpr size_t kJsonNames = 4096;      // in one object
inline constexpr size_t kJsonNameBytes = 4096;  // a member's name

// --- Submit ------------------------------------------------------------------
inline constexpr size_t kSpecBytes = 1 << 20;        // spec_json as it comes
inline constexpr size_t kStoredSpecBytes = 2 << 20;  // with defaults and paths
inline constexpr size_t kNameBytes = 256;            // `name` of the spec
inline constexpr size_t kOwnerBytes = 256;
inline constexpr size_t kKeyBytes = 128;  // idempotency_key
inline constexpr size_t kJobLabels = 64;
inline constexpr size_t kJobLabelKeyBytes = 128;
inline constexpr size_t kJobLabelValueBytes = 256;
inline constexpr size_t kInputs = 120'000;       // uploaded files of a job
inline constexpr size_t kDatasetFiles = 50'000;  // that a spec itself names
inline constexpr size_t kPathBytes = 4096;       // an input's path
inline constexpr size_t kPathParts = 64;         // between slashes
inline constexpr size_t kPathsBytes = 16 << 20;  // all inputs' paths together
inline constexpr size_t kIdBytes = 64;
inline constexpr size_t kAfter = 64;          // jobs that a job waits for
inline constexpr size_t kReasonBytes = 256;   // of a hold or a drain
inline constexpr size_t kDeletedJobs = 1000;  // of one DeleteJobs

// Names in lora.modules_to_save, in quantization_config.llm_int8_skip_modules.
inline constexpr size_t kModuleNames = 256;
// Steps that the regex matcher may take to match lora.target_modules,
// rank_pattern or alpha_pattern with the modules of a model: a simple pattern
// takes some hundred for each module.
inline constexpr int64_t kMatchSteps = 20'000'000;

// --- List --------------------------------------------------------------------
inline constexpr int kPageSize = 500;          // jobs of a page
inline constexpr int kDefaultPageSize = 50;    // when the client asks for none
inline constexpr size_t kPageBytes = 1 << 20;  // a page ends once it is larger
inline constexpr int kFilterStates = 5;
inline constexpr int kFilterLabels = 16;
inline constexpr size_t kPageTokenBytes = 1024;
inline constexpr size_t kFilterTextBytes = 256;
inline constexpr size_t kIdPart = 4;      // characters of an id, to find a job
inline constexpr size_t kWholeId = 26;    // characters of a job's id
inline constexpr size_t kFoundJobs = 20;  // named if several fit

// --- artifacts ---------------------------------------------------------------
inline constexpr int64_t kChunkBytes = 1 << 20;  // bytes of data in one message
inline constexpr int kBlobNames = 1000;          // names in one FindBlobs
inline constexpr int kBatchBlobs = 20'000;       // blobs in one UploadBatch

// --- models and what goes by itself ------------------------------------------
inline constexpr size_t kModelIdBytes = 128;   // a name, a revision
inline constexpr size_t kFilesOfModel = 1000;  // of one Push
inline constexpr size_t kListedModels = 1000;
inline constexpr int kPulls = 4;                  // under way at a time
inline constexpr size_t kCollectionItems = 1000;  // of one answer

// --- HTTP: metrics, the web page ---------------------------------------------
// The request line; all the header's other lines together.
inline constexpr size_t kHttpHeaderBytes = 16 << 10;
inline constexpr size_t kHttpConnections = 128;  // open on one address
inline constexpr size_t kLeastTokenBytes = 16;
inline constexpr size_t kTokenBytes = 1024;
inline constexpr size_t kPemBytes = 1 << 20;  // a certificate chain, a key

// --- who may what ------------------------------------------------------------
inline constexpr size_t kUserBytes = 64;        // a user's name
inline constexpr size_t kTokenNoteBytes = 256;  // what a token is for
inline constexpr size_t kTokens = 1000;         // kept at a time
inline constexpr size_t kHostNames = 64;        // in one certificate
inline constexpr int kAuditPage = 500;          // entries of a page
inline constexpr size_t kAuditBytes = 512;      // what was asked, in one entry
inline constexpr int kQueueEntries = 1000;      // of one answer

// --- what a worker says ------------------------------------------------------
// A failure's text, at the worker and again in the daemon.
inline constexpr size_t kMessageBytes = 8 << 10;
inline constexpr size_t kStageBytes = 256;  // "loading model"
// The version of the worker or torch, the name of a device.
inline constexpr size_t kVersionBytes = 128;
inline constexpr size_t kWarnings = 50;  // kept for one job
inline constexpr size_t kWarningBytes = 2000;
inline constexpr size_t kMetrics = 64;  // reported by one evaluation
inline constexpr size_t kMetricNameBytes = 128;
inline constexpr size_t kFallbackOps = 256;        // operators of one step
inline constexpr size_t kRemovedPaths = 1000;      // in one message
inline constexpr size_t kMatrixBytes = 512 << 10;  // confusion_matrix_json

// --- studies, plans, notes ---------------------------------------------------
inline constexpr size_t kStudyBytes = 256 << 10;      // options, as JSON
inline constexpr size_t kStudyResultBytes = 4 << 20;  // result.json
inline constexpr int kThresholds = 64;                // of one request
inline constexpr int kFindings = 200;                 // of one answer
inline constexpr int kPlans = 2;                      // made at a time
inline constexpr size_t kJobNoteBytes = 4096;
inline constexpr int kJobNotes = 200;  // of one job
inline constexpr int kJobTags = 64;
inline constexpr size_t kJobTagBytes = 64;

// --- what an error quotes ----------------------------------------------------
inline constexpr size_t kQuotedBytes = 80;  // a label, a value, a name

// --- files of a model that mpsd reads ----------------------------------------
inline constexpr size_t kModelFileBytes = 16 << 20;  // config.json
inline constexpr size_t kModelLabels = 100'000;      // id2label, label2id
inline constexpr int64_t kModelLayers = 10'000;
// The largest width, vocabulary, number of heads or of positions.
inline constexpr int64_t kModelSize = int64_t{1} << 31;
inline constexpr int64_t kImageSide = 1 << 15;  // pixels; a patch's side too

}  // namespace mpsd::limits

#endif  // MPSD_CORE_BASE_LIMITS_H_
