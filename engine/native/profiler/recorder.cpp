#include "profiler/recorder.h"

#include <cstdio>
#include <unordered_map>

#include "api/failure.h"

namespace refrt {

std::string numbered(size_t index) {
  char name[24];
  std::snprintf(name, sizeof(name), "%04zu.bin", index);
  return name;
}

Recorder::Recorder(const Graph& graph, const Request& request, std::string folder)
    : graph_(graph), folder_(std::move(folder)), orders_(graph.layers.size()), results_(graph.layers.size()) {
  std::unordered_map<std::string_view, size_t> by_id;
  std::unordered_map<int, int> by_root;
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    by_id.emplace(graph.layers[i].id, i);
    const int root = graph.tensors[static_cast<size_t>(graph.layers[i].tensor)].root;
    const auto [found, added] = by_root.emplace(root, static_cast<int>(i));
    if (!added) orders_[i].same_as = found->second;
  }
  const auto find = [&](const std::string& layer, const char* what) {
    const auto found = by_id.find(layer);
    if (found == by_id.end()) bad_request(std::string(what) + " names layer " + layer + ", which the model lacks");
    return found->second;
  };
  if (!request.capture.empty()) {
    for (LayerResult& result : results_) result.captured = false;
    for (const std::string& layer : request.capture) results_[find(layer, "request.capture")].captured = true;
  }
  for (const std::string& layer : request.keep) orders_[find(layer, "request.keep")].keep = true;
  for (const GoldenTensor& golden : request.golden) map_golden(find(golden.layer, "request.golden"), golden);
  if (!request.keep.empty()) make_folder(folder_ + "/tensors");
}

void Recorder::map_golden(size_t layer, const GoldenTensor& golden) {
  const Tensor& tensor = graph_.tensors[static_cast<size_t>(graph_.layers[layer].tensor)].view;
  check_same(golden.file, tensor, "golden of layer " + golden.layer);
  const MappedFile& file = files_.emplace_back(golden.file.path);
  if (file.size() != static_cast<size_t>(tensor.bytes())) {
    bad_request(golden.file.path + " holds " + std::to_string(file.size()) + " bytes where " +
                std::to_string(tensor.bytes()) + " are needed");
  }
  static const unsigned char kEmpty = 0;
  orders_[layer].golden = file.size() == 0 ? &kEmpty : file.data();
  orders_[layer].bound = golden.bound;
}

void Recorder::layer(size_t index, const Tensor& tensor) {
  if (!first_) return;
  const Order& order = orders_[index];
  LayerResult& result = results_[index];
  if (order.same_as >= 0) {
    result.seen = results_[static_cast<size_t>(order.same_as)].seen;
  } else {
    result.seen = observe(tensor);
  }
  if (!result.captured) return;
  if (order.golden != nullptr) {
    result.has_stats = true;
    result.stats = compare(tensor, order.golden, order.bound);
  }
  if (order.keep) keep_tensor(index, tensor);
}

void Recorder::keep_tensor(size_t index, const Tensor& tensor) {
  const std::string_view bytes = canonical_bytes(tensor, storage_);
  results_[index].tensor = "tensors/" + numbered(index);
  write_file(folder_ + "/" + results_[index].tensor, bytes.data(), bytes.size());
}

}  // namespace refrt
