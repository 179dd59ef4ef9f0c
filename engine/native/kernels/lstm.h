// LSTM of ONNX (default activations, no peepholes, layout 0), float32. plain.h holds the formula and its order.
//
// The products with the input of all steps are one matrix product; each step then adds its product with the hidden
// state. Both keep their own ascending sums, as the formula does.
#pragma once

#include <cstddef>
#include <vector>

#include "workers.h"

namespace refrt {

struct LstmGeometry {
  size_t steps = 0, batch = 0, input = 0, hidden = 0;
  size_t directions = 1;  // 2: bidirectional, the second one backwards
  bool reverse = false;   // one direction, backwards
};

struct LstmWeights {
  const float* w = nullptr;     // [directions, 4 hidden, input], gates i, o, f, c
  const float* r = nullptr;     // [directions, 4 hidden, hidden]
  const float* bias = nullptr;  // [directions, 8 hidden]: of w, then of r; null for none
};

struct LstmState {
  const float* h = nullptr;  // [directions, batch, hidden]; null for zeros
  const float* c = nullptr;
};

struct LstmOutputs {
  float* y = nullptr;  // [steps, directions, batch, hidden]; any may be null
  float* h = nullptr;  // [directions, batch, hidden]
  float* c = nullptr;
};

class Lstm {
 public:
  explicit Lstm(const LstmGeometry& geometry) : g_(geometry) {}
  void pack(const float* w, const float* r);
  size_t workspace_floats() const;
  // x [steps, batch, input]. Outputs overlap no input.
  void run(const float* bias, const LstmState& initial, const float* x, const LstmOutputs& out, float* workspace,
           const Workers& workers) const;

 private:
  void run_direction(size_t direction, const float* bias, const float* from_input, float* h, float* c, float* y,
                     float* gates) const;

  LstmGeometry g_;
  std::vector<float> w_, r_;  // packed, one direction after the other
};

}  // namespace refrt
