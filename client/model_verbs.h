// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_MODEL_VERBS_H_
#define MPSD_CLIENT_MODEL_VERBS_H_

#include <string>

#include "client/command_line.h"
#include "client/console.h"
#include "client/verbs.h"
#include "mpsd/v1/models.pb.h"

namespace mpsd::client {

// Each function adds its verb below `mpsctl model`, as those of verbs.h do.
// Defined in <function without Add>.cc.
void AddModelPush(Command& model, Action* action);
void AddModelPull(Command& model, Action* action);
void AddModelList(Command& model, Action* action);
void AddModelRemove(Command& model, Action* action);

// "270.1 MB, llama, 134,515,008 parameters, for CAUSAL_LM and SEQ_CLS".
std::string ModelText(const v1::Model& model);
// "LoRA takes 1.2 GB at least, and this machine has it"; "" where it is not
// known.
std::string FitText(const v1::Model& model);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_MODEL_VERBS_H_
