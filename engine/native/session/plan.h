// Where every tensor lies during a pass: one arena, places reused as soon as the last reader is done.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace refrt {

enum class PassKind { plain, instrumented };

struct Plan {
  // Per tensor of the graph: its view with `data` bound once bind() was called. Fused intermediate results have
  // a place in an instrumented pass only.
  std::vector<Tensor> tensors;
  std::vector<int64_t> offsets;  // per tensor, into the arena; -1 for constants, inputs and what is not stored
  int64_t arena_bytes = 0;

  // Points every tensor into `arena` (constants keep theirs) and `inputs` (in the order of graph.inputs).
  void bind(const Graph& graph, unsigned char* arena, const std::vector<void*>& inputs);
};

// Greedy by size: the largest tensors are placed first, each at the lowest place free over its life.
// Throws Failure(2) when more than `limit` bytes are needed.
Plan make_plan(const Graph& graph, PassKind kind, int64_t limit);

}  // namespace refrt
