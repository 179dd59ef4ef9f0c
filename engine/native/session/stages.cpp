// From the stages a model file names to the stages the kernels apply.
#include <string>

#include "api/failure.h"
#include "session/session.h"

namespace refrt {
namespace {

class StageReader {
 public:
  StageReader(const Graph& graph, const Node& node, const FusedStage& stage)
      : graph_(graph), node_(node), stage_(stage) {}

  Stage read() const {
    Stage out;
    size_t parameters = 0;
    if (stage_.op == "BatchNormalization") {
      out.kind = StageKind::scale_shift;
      out.scale = parameter(0);
      out.shift = parameter(1);
      parameters = 2;
    } else if (stage_.op == "Add") {
      out.kind = StageKind::bias;
      out.shift = parameter(0);
      parameters = 1;
    } else if (stage_.op == "HardSigmoid") {
      out.kind = StageKind::hard_sigmoid;
      out.alpha = stage_.attributes.number("alpha", 0.2f);
      out.beta = stage_.attributes.number("beta", 0.5f);
    } else if (stage_.op == "Relu") {
      out.kind = StageKind::relu;
    } else if (stage_.op == "HardSwish") {
      out.kind = StageKind::hard_swish;
    } else if (stage_.op == "Sigmoid") {
      out.kind = StageKind::sigmoid;
    } else {
      unsupported(named() + "no such stage");
    }
    if (stage_.inputs.size() != parameters) bad_request(named() + "a stage has a wrong number of parameters");
    return out;
  }

 private:
  std::string named() const {
    return "node " + std::string(node_.name) + " (" + std::string(node_.op) + " + " + std::string(stage_.op) + "): ";
  }

  // Channels are dimension 1 behind Conv and the last dimension behind MatMul.
  const float* parameter(size_t index) const {
    const Tensor& output = graph_.tensors[static_cast<size_t>(stage_.output)].view;
    if (output.rank < 2 || index >= stage_.inputs.size()) bad_request(named() + "a stage lacks a parameter");
    const int64_t channels = output.dims[node_.op == "MatMul" ? output.rank - 1 : 1];
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(stage_.inputs[index])].view;
    if (tensor.dtype != DType::float32 || tensor.rank != 1 || tensor.dims[0] != channels) {
      bad_request(named() + "a stage parameter is not float32 with one value per channel");
    }
    return tensor.f32();
  }

  const Graph& graph_;
  const Node& node_;
  const FusedStage& stage_;
};

}  // namespace

Epilogue make_epilogue(const Graph& graph, const Node& node) {
  Epilogue epilogue;
  for (const FusedStage& stage : node.stages) epilogue.stages.push_back(StageReader(graph, node, stage).read());
  return epilogue;
}

}  // namespace refrt
