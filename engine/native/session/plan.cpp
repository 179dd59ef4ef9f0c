#include "session/plan.h"

#include <algorithm>
#include <string>

#include "api/failure.h"

namespace refrt {
namespace {

constexpr int64_t kPlaceAlignment = 64;

struct Life {
  int first = -1;  // node that writes it; -1: never written by a node
  int last = -1;   // last node that reads it
};

int64_t aligned(int64_t bytes) { return (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment; }

// Lives of root tensors. Aliases lengthen the life of their root.
std::vector<Life> find_lives(const Graph& graph, PassKind kind) {
  std::vector<Life> lives(graph.tensors.size());
  const auto life = [&](int tensor) -> Life& {
    return lives[static_cast<size_t>(graph.tensors[static_cast<size_t>(tensor)].root)];
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const int now = static_cast<int>(i);
    for (int output : node.outputs) {
      if (output >= 0) life(output) = {now, now};
    }
    for (int input : node.inputs) {
      if (input >= 0) life(input).last = now;
    }
    if (kind == PassKind::plain || node.stages.empty()) continue;
    life(node.raw) = {now, now};
    for (size_t s = 0; s + 1 < node.stages.size(); ++s) life(node.stages[s].output) = {now, now};
  }
  for (int output : graph.outputs) life(output).last = static_cast<int>(graph.nodes.size());
  return lives;
}

struct Placer {
  const std::vector<Life>& lives;
  std::vector<int> placed;  // sorted by offset
  Plan& plan;

  int64_t bytes(int tensor) const { return aligned(plan.tensors[static_cast<size_t>(tensor)].bytes()); }

  void place(int tensor) {
    const Life& life = lives[static_cast<size_t>(tensor)];
    int64_t offset = 0;
    for (int other : placed) {
      const Life& theirs = lives[static_cast<size_t>(other)];
      if (theirs.last < life.first || theirs.first > life.last) continue;
      const int64_t start = plan.offsets[static_cast<size_t>(other)];
      if (start >= offset + bytes(tensor)) break;
      offset = std::max(offset, start + bytes(other));
    }
    plan.offsets[static_cast<size_t>(tensor)] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes(tensor));
    const auto at = std::upper_bound(placed.begin(), placed.end(), offset, [&](int64_t value, int other) {
      return value < plan.offsets[static_cast<size_t>(other)];
    });
    placed.insert(at, tensor);
  }
};

}  // namespace

Plan make_plan(const Graph& graph, PassKind kind, int64_t limit) {
  Plan plan;
  for (const GraphTensor& tensor : graph.tensors) plan.tensors.push_back(tensor.view);
  plan.offsets.assign(graph.tensors.size(), -1);
  const std::vector<Life> lives = find_lives(graph, kind);
  std::vector<int> order;
  for (size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].first >= 0) order.push_back(static_cast<int>(i));
  }
  Placer placer{lives, {}, plan};
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return placer.bytes(a) != placer.bytes(b) ? placer.bytes(a) > placer.bytes(b) : a < b;
  });
  for (int tensor : order) {
    placer.place(tensor);
    if (plan.arena_bytes > limit) {
      bad_request("the model needs more than " + std::to_string(limit) + " bytes for its tensors");
    }
  }
  return plan;
}

void Plan::bind(const Graph& graph, unsigned char* arena, const std::vector<void*>& inputs) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (offsets[i] >= 0) tensors[i].data = arena + offsets[i];
  }
  for (size_t i = 0; i < inputs.size(); ++i) tensors[static_cast<size_t>(graph.inputs[i])].data = inputs[i];
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].data = tensors[static_cast<size_t>(graph.tensors[i].root)].data;
  }
}

}  // namespace refrt
