// result.json of the runner contract (engine/contract/result.py): compact, defaults left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/request.h"
#include "graph/graph.h"
#include "profiler/isolated.h"
#include "profiler/recorder.h"

namespace refrt {

struct PassResult {
  PassKind kind = PassKind::plain;
  int64_t iteration = 0;
  std::vector<Observation> outputs;  // in the order of graph.outputs
  int64_t latency_ns = 0;
};

struct Result {
  std::vector<PassResult> passes;
  std::vector<Observation> outputs;                  // of the pass whose tensors lie in DIR/outputs
  const std::vector<LayerResult>* layers = nullptr;  // null without an instrumented pass
  std::vector<IsolatedResult> isolated;
  int64_t load_ns = 0;
};

const char* pass_name(PassKind kind);
std::string result_text(const Request& request, const Graph& graph, const Result& result);
// The answer of `refrt info`.
std::string info_text();
const char* version();
const char* build_name();

}  // namespace refrt
