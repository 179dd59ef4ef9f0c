// Order and ownership: after this, no node reads what is not there or writes what it does not own.
#include <string>
#include <unordered_set>

#include "api/failure.h"
#include "graph/graph.h"

namespace refrt {
namespace {

constexpr int kUnwritten = -2;
constexpr int kBeforeFirst = -1;  // constants and graph inputs

class Validator {
 public:
  explicit Validator(const Graph& graph) : graph_(graph), writer_(graph.tensors.size(), kUnwritten) {
    tap_.resize(graph.tensors.size(), false);
  }

  void run() {
    mark_constants_and_inputs();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) node(static_cast<int>(i));
    for (int output : graph_.outputs) readable(output, "the graph's outputs");
    if (graph_.outputs.empty()) bad_request("the graph has no outputs");
    refuse_twice(graph_.inputs, "input");
    refuse_twice(graph_.outputs, "output");
    layers();
  }

 private:
  const GraphTensor& tensor(int index) const { return graph_.tensors[static_cast<size_t>(index)]; }
  int root(int index) const { return tensor(index).root; }
  int& writer(int index) { return writer_[static_cast<size_t>(root(index))]; }

  void mark_constants_and_inputs() {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].view.constant) writer_[i] = kBeforeFirst;
    }
    for (int input : graph_.inputs) own(input, kBeforeFirst, "an input");
  }

  // `index` is written here and nowhere else.
  void own(int index, int when, const std::string& by) {
    if (root(index) != index || writer(index) != kUnwritten) {
      bad_request(by + " writes tensor " + std::string(tensor(index).name) + ", which is not its own");
    }
    writer(index) = when;
  }

  void readable(int index, const std::string& by) {
    if (writer(index) == kUnwritten || tap_[static_cast<size_t>(root(index))]) {
      bad_request(by + " reads tensor " + std::string(tensor(index).name) + " before it is written");
    }
  }

  void node(int index) {
    const Node& node = graph_.nodes[static_cast<size_t>(index)];
    const std::string by = "node " + std::string(node.name);
    for (int input : node.inputs) {
      if (input >= 0) readable(input, by);
    }
    for (const FusedStage& stage : node.stages) {
      for (int input : stage.inputs) {
        if (!tensor(input).view.constant) bad_request(by + " has a stage whose parameter is not constant");
      }
    }
    for (int output : node.outputs) {
      if (output >= 0) own(output, index, by);
    }
    if (node.stages.empty()) return;
    if (node.outputs.size() != 1 || node.outputs[0] < 0 || node.stages.back().output != node.outputs[0]) {
      bad_request(by + " has stages that do not end in its output");
    }
    tap(node, node.raw, index);
    for (size_t i = 0; i + 1 < node.stages.size(); ++i) tap(node, node.stages[i].output, index);
  }

  void tap(const Node& node, int index, int when) {
    const std::string by = "node " + std::string(node.name);
    own(index, when, by);
    tap_[static_cast<size_t>(index)] = true;
    const Tensor& output = tensor(node.outputs[0]).view;
    if (!same_shape(tensor(index).view, output) || tensor(index).view.dtype != output.dtype) {
      bad_request(by + " has a stage of another shape than its output");
    }
  }

  void layers() {
    std::unordered_set<std::string_view> seen;
    for (const Layer& layer : graph_.layers) {
      if (writer(layer.tensor) == kUnwritten || writer(layer.tensor) != layer.node) {
        bad_request("layer " + std::string(layer.id) + " is not written by the node it names");
      }
      if (!seen.insert(layer.id).second) bad_request("layer " + std::string(layer.id) + " is there twice");
    }
  }

  void refuse_twice(const std::vector<int>& ends, const char* kind) const {
    std::unordered_set<std::string_view> seen;
    for (int index : ends) {
      if (!seen.insert(tensor(index).name).second) {
        bad_request(std::string(kind) + " " + std::string(tensor(index).name) + " is there twice");
      }
    }
  }

  const Graph& graph_;
  std::vector<int> writer_;
  std::vector<bool> tap_;
};

}  // namespace

void validate(const Graph& graph) { Validator(graph).run(); }

}  // namespace refrt
