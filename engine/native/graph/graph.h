// A model as read from a flat file (docs/flat-format.md): tensors, nodes in execution order, layers.
// Everything here has been checked: indices are in range, every tensor is written once and before it is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/files.h"
#include "ops/op.h"

namespace refrt {

struct GraphTensor {
  std::string_view name;
  Tensor view;    // data set for constants only
  int root = -1;  // index of the tensor that owns the bytes: itself unless this one is an alias
};

// One elementwise stage fused behind a node. `output` is its result: only stored in an instrumented pass,
// except the last stage's, which is the node's output.
struct FusedStage {
  std::string_view op;
  int output = -1;
  std::vector<int> inputs;  // constants besides the running value
  Attributes attributes;
};

struct Node {
  std::string_view op;
  std::string_view name;
  std::vector<int> inputs;  // -1 for an absent optional input
  std::vector<int> outputs;
  Attributes attributes;
  std::vector<FusedStage> stages;
  int raw = -1;  // with stages: the node's own result before the first of them
};

// One tensor of the original model that can be observed. It holds its value once `node` has run
// (-1: before the first node).
struct Layer {
  std::string_view id;
  std::string_view op;
  int tensor = -1;
  int node = -1;
};

struct Graph {
  MappedFile file;
  std::vector<GraphTensor> tensors;
  std::vector<Node> nodes;
  std::vector<Layer> layers;
  std::vector<int> inputs;
  std::vector<int> outputs;
};

// Reads and checks a model file. Throws Failure(2) with one line naming the file and what is wrong.
Graph read_graph(const std::string& path);
// Second half of read_graph: order of execution, single assignment, aliases (graph/validate.cpp).
void validate(const Graph& graph);

}  // namespace refrt
