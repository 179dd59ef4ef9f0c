// Layers run alone on tensors the request brings (contract level 2): the error a layer introduces, without what it
// inherits.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "api/request.h"
#include "profiler/recorder.h"
#include "session/session.h"

namespace refrt {

struct IsolatedResult {
  size_t layer = 0;  // index into graph.layers
  LayerResult result;
};

// Runs every layer of request.isolated alone, in the order of the model; statistics where request.golden names it,
// its tensor where request.keep does. The tensors of the passes are gone afterwards. Throws Failure(2) for a layer or
// an input the model lacks, an input that is not given, or a tensor of another type or shape; Failure(4) after
// `deadline`.
std::vector<IsolatedResult> run_isolated(const Request& request, const std::string& folder, Session& session,
                                         std::chrono::steady_clock::time_point deadline);

}  // namespace refrt
