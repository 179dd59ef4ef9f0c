// A loaded model ready to run: operators prepared once, memory planned once per kind of pass.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "backends/cpu/threads.h"
#include "graph/graph.h"
#include "kernels/epilogue.h"
#include "session/arena.h"
#include "session/plan.h"

namespace refrt {

// Sees every tensor of an instrumented pass while it is still there.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // The layer's tensor holds its final value; the next node may overwrite it.
  virtual void layer(size_t index, const Tensor& tensor) = 0;
};

class Session {
 public:
  // Throws Failure(2 or 3) when an operator refuses its node.
  Session(const Graph& graph, int threads, bool with_instrumented);

  // Raw little-endian bytes of input `index`, copied.
  void set_input(size_t index, const void* data, size_t bytes);

  // Runs every node once. `watcher` is called in an instrumented pass only. Throws Failure(4) after `deadline`.
  void run(PassKind kind, Watcher* watcher, std::chrono::steady_clock::time_point deadline);

  // Output `index` of the pass that ran last.
  const Tensor& output(size_t index, PassKind kind) const;
  const Graph& graph() const { return graph_; }

  // One layer alone, in the memory of the instrumented pass (session/alone.cpp); what the passes left there is lost.
  // `reads`: the tensors it is computed from and that are no constants; `place`: where their values have to be.
  std::vector<int> reads(size_t layer) const;
  const Tensor& place(int tensor) const { return instrumented_.plan.tensors[static_cast<size_t>(tensor)]; }
  const Tensor& run_alone(size_t layer);

 private:
  // One node in one kind of pass, with all pointers resolved.
  struct Step {
    std::vector<Tensor*> inputs;
    std::vector<Tensor*> outputs;
    Epilogue epilogue;
    std::vector<size_t> layers;
  };
  struct Program {
    Plan plan;
    std::vector<Step> steps;
    std::vector<size_t> first_layers;  // observable before the first node
  };

  void prepare_nodes();
  void run_step(const Program& program, size_t node);
  int stage_of(size_t layer) const;
  bool is_view(size_t layer) const;  // only renames or reshapes another tensor: nothing is computed
  void build(Program& program, PassKind kind);
  Program& program(PassKind kind) { return kind == PassKind::plain ? plain_ : instrumented_; }

  const Graph& graph_;
  ThreadPool threads_;
  std::vector<std::unique_ptr<Operator>> operators_;
  std::vector<Epilogue> epilogues_;
  Arena input_memory_;
  Arena arena_;
  Arena workspace_;
  std::vector<void*> inputs_;
  int64_t workspace_bytes_ = 0;
  Program plain_;
  Program instrumented_;
};

// Translates the stages of a node into the kernels' form, checking every parameter. Throws Failure(2 or 3).
Epilogue make_epilogue(const Graph& graph, const Node& node);

}  // namespace refrt
