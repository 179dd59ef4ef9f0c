// request.json of the runner contract (engine/contract/request.py), checked.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"
#include "session/plan.h"

namespace refrt {

struct TensorFile {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string path;
};

struct GoldenTensor {
  std::string layer;
  TensorFile file;
  double bound = 0;
};

// One layer to run alone, and the tensors it is given instead of what the layers before it compute.
struct IsolatedLayer {
  std::string id;
  std::vector<TensorFile> inputs;
};

struct Request {
  std::string job;
  int64_t attempt = 0;
  std::string model_path;
  std::vector<TensorFile> inputs;
  std::vector<PassKind> passes;
  int64_t iterations = 1;
  int threads = 1;
  std::vector<GoldenTensor> golden;
  std::vector<std::string> keep;
  std::vector<std::string> capture;  // layers the instrumented pass shows; all when empty
  std::vector<IsolatedLayer> isolated;
  double limit_seconds = 120;
  int64_t limit_result_bytes = 64 << 20;
};

// Throws Failure(2) for a request this runner cannot read, Failure(3) for a backend, precision, strategy or model
// format it does not have.
Request read_request(const std::string& path);

// Refuses (Failure(2), with `what` in the message) a file that is not of the tensor's type and shape.
void check_same(const TensorFile& file, const Tensor& tensor, const std::string& what);

}  // namespace refrt
