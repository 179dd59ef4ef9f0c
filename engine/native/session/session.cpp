#include "session/session.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "api/failure.h"

namespace refrt {
namespace {

// Address space of the smallest chips (armv7) minus program and mapped weights.
constexpr int64_t kArenaLimit = int64_t{1} << 30;

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Session::Session(const Graph& graph, int threads, bool with_instrumented) : graph_(graph), threads_(threads) {
  prepare_nodes();
  workspace_ = make_arena(workspace_bytes_);
  int64_t bytes = 0;
  std::vector<int64_t> offsets;
  for (int input : graph.inputs) {
    offsets.push_back(bytes);
    bytes += rounded(graph.tensors[static_cast<size_t>(input)].view.bytes());
    if (bytes > kArenaLimit) bad_request("the model's inputs need more than 1 GiB");
  }
  input_memory_ = make_arena(bytes);
  for (int64_t offset : offsets) inputs_.push_back(input_memory_.get() + offset);
  plain_.plan = make_plan(graph, PassKind::plain, kArenaLimit);
  if (with_instrumented) instrumented_.plan = make_plan(graph, PassKind::instrumented, kArenaLimit);
  // The passes run in turn and their outputs are collected in between, so that one arena serves both.
  arena_ = make_arena(std::max(plain_.plan.arena_bytes, instrumented_.plan.arena_bytes));
  build(plain_, PassKind::plain);
  if (with_instrumented) build(instrumented_, PassKind::instrumented);
}

void Session::prepare_nodes() {
  for (const Node& node : graph_.nodes) {
    const OperatorFactory factory = find_operator(node.op);
    if (factory == nullptr) {
      unsupported("node " + std::string(node.name) + ": operator " + std::string(node.op) + " is not supported");
    }
    epilogues_.push_back(make_epilogue(graph_, node));
    PrepareContext context;
    context.node = node.name;
    context.op = node.op;
    const auto view = [&](int index) { return index < 0 ? nullptr : &graph_.tensors[static_cast<size_t>(index)].view; };
    for (int input : node.inputs) context.inputs.push_back(view(input));
    for (int output : node.outputs) context.outputs.push_back(view(output));
    context.attributes = &node.attributes;
    context.epilogue = node.stages.empty() ? nullptr : &epilogues_.back();
    context.threads = threads_.threads();
    operators_.push_back(factory());
    try {
      operators_.back()->prepare(context);
    } catch (const Failure& failure) {
      const std::string_view message = failure.what();
      if (message.substr(0, 5) == "node ") throw;
      throw Failure(failure.code(),
                    "node " + std::string(node.name) + " (" + std::string(node.op) + "): " + failure.what());
    }
    workspace_bytes_ = std::max(workspace_bytes_, context.workspace_bytes);
  }
}

void Session::build(Program& program, PassKind kind) {
  program.plan.bind(graph_, arena_.get(), inputs_);
  std::vector<Tensor>& tensors = program.plan.tensors;
  const auto at = [&](int index) { return index < 0 ? nullptr : &tensors[static_cast<size_t>(index)]; };
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    Step step;
    for (int input : node.inputs) step.inputs.push_back(at(input));
    for (int output : node.outputs) step.outputs.push_back(at(output));
    step.epilogue = epilogues_[i];
    if (kind == PassKind::instrumented && !node.stages.empty()) {
      step.epilogue.raw_tap = at(node.raw)->f32();
      for (size_t s = 0; s + 1 < node.stages.size(); ++s) {
        step.epilogue.stages[s].tap = at(node.stages[s].output)->f32();
      }
    }
    program.steps.push_back(std::move(step));
  }
  for (size_t i = 0; i < graph_.layers.size(); ++i) {
    const int node = graph_.layers[i].node;
    (node < 0 ? program.first_layers : program.steps[static_cast<size_t>(node)].layers).push_back(i);
  }
}

void Session::set_input(size_t index, const void* data, size_t bytes) {
  if (bytes > 0) std::memcpy(inputs_[index], data, bytes);  // nothing may lie at no address
}

void Session::run(PassKind kind, Watcher* watcher, std::chrono::steady_clock::time_point deadline) {
  Program& chosen = program(kind);
  const auto watch = [&](const std::vector<size_t>& layers) {
    if (watcher == nullptr) return;
    for (size_t layer : layers) {
      watcher->layer(layer, chosen.plan.tensors[static_cast<size_t>(graph_.layers[layer].tensor)]);
    }
  };
  watch(chosen.first_layers);
  for (size_t i = 0; i < chosen.steps.size(); ++i) {
    run_step(chosen, i);
    watch(chosen.steps[i].layers);
    if (std::chrono::steady_clock::now() > deadline) {
      runtime_failed("the time limit of the request ran out after node " + std::string(graph_.nodes[i].name));
    }
  }
}

void Session::run_step(const Program& program, size_t node) {
  const Step& step = program.steps[node];
  RunContext context;
  context.inputs = step.inputs.data();
  context.outputs = step.outputs.data();
  context.epilogue = graph_.nodes[node].stages.empty() ? nullptr : &step.epilogue;
  context.workspace = workspace_.get();
  context.threads = &threads_;
  operators_[node]->run(context);
}

const Tensor& Session::output(size_t index, PassKind kind) const {
  const Program& chosen = kind == PassKind::plain ? plain_ : instrumented_;
  return chosen.plan.tensors[static_cast<size_t>(graph_.outputs[index])];
}

}  // namespace refrt
