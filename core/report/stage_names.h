// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_STAGE_NAMES_H_
#define MPSD_CORE_REPORT_STAGE_NAMES_H_

// The stages of a run that mpsd knows by name, to tell what a worker spends its
// time on. The worker announces each where it begins; every other stage is a
// text for people, and prepares the run.
namespace mpsd::report {

inline constexpr char kStageTraining[] = "training";
inline constexpr char kStageEvaluating[] = "evaluating";
inline constexpr char kStagePredicting[] = "predicting";
inline constexpr char kStageSaving[] = "saving";  // a checkpoint or the result

}  // namespace mpsd::report

#endif  // MPSD_CORE_REPORT_STAGE_NAMES_H_
