// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Bounds on what clients, workers and their files may send, checked before
// anything recurses over, copies or stores the data. This is the only table:
// code and the comments of proto/ quote it; tests check each bound at its value
// and one past it.
namespace mpsd::limits {

// --- JSON, wherever it comes from --------------------------------------------
inline constexpr int kJsonDepth = 64;  // nested arrays and objects
// Values in a text that mpsd parses with line numbers: job.json, config.json.
inline constexpr size_t kJsonValues = 300'000;
inline constexpr size_t kJsonNames = 4096;      // in one object
inline constexpr size_t kJsonNameBytes = 4096;  // a member's name

// --- Submit ------------------------------------------------------------------
inline constexpr size_t kSpecBytes = 1 << 20;        // spec_json as received
inline constexpr size_t kStoredSpecBytes = 2 << 20;  // with defaults and paths
inline constexpr size_t kNameBytes = 256;            // `name` of the spec
inline constexpr size_t kOwnerBytes = 256;
inline constexpr size_t kKeyBytes = 128;  // idempotency_key
inline constexpr size_t kJobLabels = 64;
inline constexpr size_t kJobLabelKeyBytes = 128;
inline constexpr size_t kJobLabelValueBytes = 256;
inline constexpr size_t kInputs = 120'000;       // uploaded files of a job
inline constexpr size_t kDatasetFiles = 50'000;  // named by the spec itself
inline constexpr size_t kPathBytes = 4096;       // an input's path
inline constexpr size_t kPathParts = 64;         // between slashes
inline constexpr size_t kPathsBytes = 16 << 20;  // all inputs' paths together
inline constexpr size_t kIdBytes = 64;
inline constexpr size_t kAfter = 64;         // jobs that a job depends on
inline constexpr size_t kReasonBytes = 256;  // of a hold or drain

// Names in lora.modules_to_save, in quantization_config.llm_int8_skip_modules.
inline constexpr size_t kModuleNames = 256;
inline constexpr int kLoraRank = 1 << 16;
inline constexpr size_t kSamplePrompts = 16;   // training.sample_prompts
inline constexpr int64_t kSampleTokens = 512;  // of an answer to one of them
// Steps that the regex matcher may take to match lora.target_modules,
// rank_pattern or alpha_pattern against a model's modules: a simple pattern
// takes a few hundred per module.
inline constexpr int64_t kMatchSteps = 20'000'000;

// --- List --------------------------------------------------------------------
inline constexpr int kPageSize = 500;          // jobs per page
inline constexpr int kDefaultPageSize = 50;    // if the client gives none
inline constexpr size_t kPageBytes = 1 << 20;  // at which a page ends
inline constexpr int kFilterStates = 5;
inline constexpr int kFilterLabels = 16;
inline constexpr size_t kPageTokenBytes = 1024;
inline constexpr size_t kFilterTextBytes = 256;
inline constexpr size_t kIdPart = 4;      // characters of an id, to find a job
inline constexpr size_t kWholeId = 26;    // characters of a job's id
inline constexpr size_t kFoundJobs = 20;  // listed if several match

// --- artifacts ---------------------------------------------------------------
inline constexpr int64_t kChunkBytes = 1 << 20;  // bytes of data per message
inline constexpr int kBlobNames = 1000;          // names per FindBlobs
inline constexpr int kBatchBlobs = 20'000;       // blobs per UploadBatch

// --- models and automatic removal --------------------------------------------
inline constexpr size_t kModelIdBytes = 128;   // a name, a revision
inline constexpr size_t kFilesOfModel = 1000;  // per Push
inline constexpr size_t kListedModels = 1000;
inline constexpr size_t kModelsOfUser = 100;      // pushed
inline constexpr int kPulls = 4;                  // running at a time
inline constexpr size_t kCollectionItems = 1000;  // per response

// --- HTTP: metrics, the web page ---------------------------------------------
// The request line; all other header lines together.
inline constexpr size_t kHttpHeaderBytes = 16 << 10;
inline constexpr size_t kHttpConnections = 128;  // open per address
inline constexpr size_t kLeastTokenBytes = 16;
inline constexpr size_t kTokenBytes = 1024;
inline constexpr size_t kPemBytes = 1 << 20;  // a certificate chain, a key

// --- access ------------------------------------------------------------------
inline constexpr size_t kUserBytes = 64;        // a user's name
inline constexpr size_t kTokenNoteBytes = 256;  // what a token is for
inline constexpr size_t kTokens = 1000;         // kept at a time
inline constexpr size_t kHostNames = 64;        // in one certificate
inline constexpr int kAuditPage = 500;          // entries per page
inline constexpr size_t kAuditBytes = 512;      // of the request, per entry
inline constexpr int kQueueEntries = 1000;      // per response

// --- what a worker reports ---------------------------------------------------
// A failure's text, cut by the worker and again by the daemon.
inline constexpr size_t kMessageBytes = 8 << 10;
inline constexpr size_t kStageBytes = 256;  // "loading model"
// The version of the worker or torch, the name of a device.
inline constexpr size_t kVersionBytes = 128;
inline constexpr size_t kWarnings = 50;  // kept per job
inline constexpr size_t kWarningBytes = 2000;
inline constexpr size_t kMetrics = 64;  // per evaluation
inline constexpr size_t kMetricNameBytes = 128;
inline constexpr size_t kFallbackOps = 256;        // operators per step
inline constexpr size_t kRemovedPaths = 1000;      // per message
inline constexpr size_t kSampleBytes = 8 << 10;    // of an answer to a prompt
inline constexpr size_t kMatrixBytes = 512 << 10;  // confusion_matrix_json

// --- studies, plans, notes ---------------------------------------------------
inline constexpr size_t kStudyBytes = 256 << 10;      // options, as JSON
inline constexpr size_t kStudyResultBytes = 4 << 20;  // result.json
inline constexpr int kThresholds = 64;                // per request
inline constexpr int kFindings = 200;                 // per response
inline constexpr int kPlans = 2;                      // computed at a time
inline constexpr size_t kJobNoteBytes = 4096;
inline constexpr int kJobNotes = 200;  // of a user, per job
inline constexpr int kJobTags = 64;
inline constexpr size_t kJobTagBytes = 64;

// --- quotations in errors ----------------------------------------------------
inline constexpr size_t kQuotedBytes = 80;  // a label, a value, a name

// --- files of a model that mpsd reads ----------------------------------------
inline constexpr size_t kModelFileBytes = 16 << 20;  // config.json
inline constexpr size_t kModelLabels = 100'000;      // id2label, label2id
inline constexpr int64_t kModelLayers = 10'000;
// The largest width, vocabulary, number of heads or number of positions.
inline constexpr int64_t kModelSize = int64_t{1} << 31;
inline constexpr int64_t kImageSide = 1 << 15;  // pixels; also a patch's side

}  // namespace mpsd::limits
