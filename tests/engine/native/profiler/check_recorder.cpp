// Layers that change from one iteration to the next: everything told of them must be of the first.
#include <cstdio>
#include <cstring>

#include "api/files.cpp"
#include "ops/op.cpp"
#include "profiler/digest.cpp"
#include "profiler/recorder.cpp"
#include "profiler/stats.cpp"

namespace refrt {
void check_same(const TensorFile&, const Tensor&, const std::string&) {}  // of api/request.cpp
}  // namespace refrt

int main(int, char** arguments) {
  using namespace refrt;
  float values[2] = {1.0f, 2.0f};
  GraphTensor tensor;
  tensor.view.rank = 1;
  tensor.view.dims[0] = 2;
  tensor.view.data = values;
  tensor.root = 0;
  Graph graph;
  graph.tensors.push_back(tensor);
  graph.layers.push_back({"first", "Conv", 0, -1});
  graph.layers.push_back({"same", "Reshape", 0, -1});
  Request request;
  request.keep = {"first"};
  Recorder recorder(graph, request, arguments[1]);
  const std::string expected(observe(tensor.view).digest());
  for (int iteration = 0; iteration < 3; ++iteration) {
    recorder.first_iteration(iteration == 0);
    for (size_t i = 0; i < 2; ++i) recorder.layer(i, tensor.view);
    values[iteration % 2] = 7.0f;
  }
  for (const LayerResult& result : recorder.results()) {
    if (result.seen.digest() != expected) return std::puts("a digest of a later iteration"), 1;
  }
  std::puts("first iteration");
  return 0;
}
