// Watches an instrumented pass: digests of every layer, statistics and tensors of those the request names.
#pragma once

#include <string>
#include <vector>

#include "api/files.h"
#include "api/request.h"
#include "profiler/digest.h"
#include "profiler/stats.h"
#include "session/session.h"

namespace refrt {

struct LayerResult {
  bool captured = true;  // false: the request names what to capture, and not this layer
  Observation seen;
  bool has_stats = false;
  RawStats stats;
  std::string tensor;  // path below the result folder; empty when not kept
};

class Recorder : public Watcher {
 public:
  // Maps the golden tensors. Throws Failure(2) when the request names a layer this model does not have, or a golden
  // tensor of another type or shape.
  Recorder(const Graph& graph, const Request& request, std::string folder);

  void layer(size_t index, const Tensor& tensor) override;
  // Layers are those of the first iteration: digest, statistics and tensor tell of the same bytes.
  void first_iteration(bool first) { first_ = first; }
  const std::vector<LayerResult>& results() const { return results_; }

 private:
  struct Order {
    int same_as = -1;  // an earlier layer that shares the bytes: its digest holds here too
    const unsigned char* golden = nullptr;
    double bound = 0;
    bool keep = false;
  };
  void map_golden(size_t layer, const GoldenTensor& golden);
  void keep_tensor(size_t index, const Tensor& tensor);

  const Graph& graph_;
  std::string folder_;
  std::vector<MappedFile> files_;
  std::vector<Order> orders_;
  std::vector<LayerResult> results_;
  std::vector<unsigned char> storage_;
  bool first_ = true;
};

// "NNNN.bin"
std::string numbered(size_t index);

}  // namespace refrt
