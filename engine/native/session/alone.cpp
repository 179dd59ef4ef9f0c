// One layer alone: the kernels of the passes, on tensors that were put in place from outside.
#include <algorithm>
#include <cstring>

#include "session/session.h"

namespace refrt {
namespace {

// A fused stage by itself, through the functions that the fused kernels inline. Channels are the last dimension
// behind MatMul and dimension 1 behind Conv.
void apply_alone(const Stage& stage, bool channels_last, const Tensor& in, const Tensor& out) {
  if (stage.kind != StageKind::scale_shift && stage.kind != StageKind::bias) {
    apply_stage(stage, in.f32(), out.f32(), static_cast<size_t>(out.count()), 0);
    return;
  }
  const int64_t channels = out.dims[channels_last ? out.rank - 1 : 1];
  if (channels_last) {
    if (out.bytes() > 0) std::memcpy(out.data, in.data, static_cast<size_t>(out.bytes()));
    for (int64_t at = 0; at < out.count(); at += channels) {
      apply_stage_across(stage, out.f32() + at, static_cast<size_t>(channels), 0);
    }
    return;
  }
  const int64_t row = out.span(2, out.rank);
  for (int64_t i = 0; i < out.dims[0] * channels; ++i) {
    apply_stage(stage, in.f32() + i * row, out.f32() + i * row, static_cast<size_t>(row),
                static_cast<size_t>(i % channels));
  }
}

}  // namespace

bool Session::is_view(size_t layer) const {
  const int tensor = graph_.layers[layer].tensor;
  return graph_.tensors[static_cast<size_t>(tensor)].root != tensor || graph_.layers[layer].node < 0;
}

// The stage that computes the layer; -1 when the node's own operator does.
int Session::stage_of(size_t layer) const {
  const Node& node = graph_.nodes[static_cast<size_t>(graph_.layers[layer].node)];
  for (size_t s = 0; s < node.stages.size(); ++s) {
    if (node.stages[s].output == graph_.layers[layer].tensor) return static_cast<int>(s);
  }
  return -1;
}

std::vector<int> Session::reads(size_t layer) const {
  const auto constant = [&](int tensor) {
    return graph_.tensors[static_cast<size_t>(graph_.tensors[static_cast<size_t>(tensor)].root)].view.constant;
  };
  if (is_view(layer)) {
    const int root = graph_.tensors[static_cast<size_t>(graph_.layers[layer].tensor)].root;
    return constant(root) ? std::vector<int>{} : std::vector<int>{root};
  }
  const Node& node = graph_.nodes[static_cast<size_t>(graph_.layers[layer].node)];
  const int stage = stage_of(layer);
  if (stage >= 0) return {stage == 0 ? node.raw : node.stages[static_cast<size_t>(stage) - 1].output};
  std::vector<int> varying;
  for (int input : node.inputs) {
    if (input >= 0 && !constant(input)) varying.push_back(input);
  }
  return varying;
}

const Tensor& Session::run_alone(size_t layer) {
  const Tensor& result = place(graph_.layers[layer].tensor);
  if (is_view(layer)) return result;
  const auto node = static_cast<size_t>(graph_.layers[layer].node);
  const int stage = stage_of(layer);
  if (stage < 0) {
    run_step(instrumented_, node);
  } else {
    const Stage& alone = instrumented_.steps[node].epilogue.stages[static_cast<size_t>(stage)];
    apply_alone(alone, graph_.nodes[node].op == "MatMul", place(reads(layer).front()), result);
  }
  return result;
}

}  // namespace refrt
