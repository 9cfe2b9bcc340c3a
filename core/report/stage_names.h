// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_STAGE_NAMES_H_
#define MPSD_CORE_REPORT_STAGE_NAMES_H_

// The stages of a run that mpsd knows by name, to show what a worker spends its
// time on. The worker reports each stage when it begins; any other stage is a
// human-readable text and counts as preparation.
namespace mpsd::report {

inline constexpr char kStageTraining[] = "training";
inline constexpr char kStageEvaluating[] = "evaluating";
inline constexpr char kStagePredicting[] = "predicting";
inline constexpr char kStageSaving[] = "saving";  // a checkpoint or the result

}  // namespace mpsd::report

#endif  // MPSD_CORE_REPORT_STAGE_NAMES_H_
