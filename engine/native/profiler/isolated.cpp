#include "profiler/isolated.h"

#include <algorithm>
#include <cstring>

#include "api/failure.h"

namespace refrt {
namespace {

class Alone {
 public:
  Alone(const Request& request, const std::string& folder, Session& session)
      : request_(request), folder_(folder), session_(session), graph_(session.graph()) {}

  size_t find(const std::string& id) const {
    for (size_t i = 0; i < graph_.layers.size(); ++i) {
      if (graph_.layers[i].id == id) return i;
    }
    bad_request("request.isolated names layer " + id + ", which the model lacks");
  }

  LayerResult run(size_t layer, const IsolatedLayer& order) {
    for (int input : session_.reads(layer)) {
      const auto given = std::find_if(order.inputs.begin(), order.inputs.end(),
                                      [&](const TensorFile& file) { return shares(file, input); });
      if (given == order.inputs.end()) {
        const std::string_view name = graph_.tensors[static_cast<size_t>(input)].name;
        bad_request("isolated layer " + order.id + " lacks its input " + std::string(name));
      }
      place(*given, input, order.id);
    }
    return observed(layer, session_.run_alone(layer), order.id);
  }

 private:
  // Nodes read past views: any tensor that shares the bytes will do, whichever the original model names.
  bool shares(const TensorFile& file, int input) const {
    const int root = graph_.tensors[static_cast<size_t>(input)].root;
    return std::any_of(graph_.tensors.begin(), graph_.tensors.end(),
                       [&](const GraphTensor& tensor) { return tensor.name == file.name && tensor.root == root; });
  }

  void place(const TensorFile& file, int input, const std::string& layer) {
    const auto named = std::find_if(graph_.tensors.begin(), graph_.tensors.end(),
                                    [&](const GraphTensor& tensor) { return tensor.name == file.name; });
    check_same(file, named->view, "input " + file.name + " of isolated layer " + layer);
    const MappedFile bytes(file.path);
    const Tensor& target = session_.place(input);
    if (bytes.size() != static_cast<size_t>(target.bytes())) {
      bad_request(file.path + " holds " + std::to_string(bytes.size()) + " bytes where " +
                  std::to_string(target.bytes()) + " are needed");
    }
    if (bytes.size() > 0) std::memcpy(target.data, bytes.data(), bytes.size());
  }

  LayerResult observed(size_t layer, const Tensor& tensor, const std::string& id) {
    LayerResult result;
    result.seen = observe(tensor);
    for (const GoldenTensor& golden : request_.golden) {
      if (golden.layer != id) continue;
      const MappedFile file(golden.file.path);  // type, shape and size were checked by the recorder
      static const unsigned char kEmpty = 0;
      result.has_stats = true;
      result.stats = compare(tensor, file.size() == 0 ? &kEmpty : file.data(), golden.bound);
    }
    if (std::find(request_.keep.begin(), request_.keep.end(), id) != request_.keep.end()) {
      const std::string_view bytes = canonical_bytes(tensor, storage_);
      result.tensor = "isolated/" + numbered(layer);
      write_file(folder_ + "/" + result.tensor, bytes.data(), bytes.size());
    }
    return result;
  }

  const Request& request_;
  const std::string& folder_;
  Session& session_;
  const Graph& graph_;
  std::vector<unsigned char> storage_;
};

}  // namespace

std::vector<IsolatedResult> run_isolated(const Request& request, const std::string& folder, Session& session,
                                         std::chrono::steady_clock::time_point deadline) {
  std::vector<IsolatedResult> results;
  if (request.isolated.empty()) return results;
  if (!request.keep.empty()) make_folder(folder + "/isolated");
  Alone alone(request, folder, session);
  std::vector<std::pair<size_t, const IsolatedLayer*>> orders;
  for (const IsolatedLayer& order : request.isolated) orders.emplace_back(alone.find(order.id), &order);
  std::sort(orders.begin(), orders.end());
  for (const auto& [layer, order] : orders) {
    results.push_back({layer, alone.run(layer, *order)});
    if (std::chrono::steady_clock::now() > deadline) {
      runtime_failed("the time limit of the request ran out after isolated layer " + order->id);
    }
  }
  return results;
}

}  // namespace refrt
