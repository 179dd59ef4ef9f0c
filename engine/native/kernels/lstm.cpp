#include "lstm.h"

#include <algorithm>

#include "maths.h"
#include "matmul.h"

namespace refrt {

namespace {

// rows × (4 hidden) products with weights [4 hidden, depth], which lie transposed.
MatmulShape gates_shape(size_t rows, size_t gates, size_t depth) {
  return MatmulShape{rows, gates, depth, depth, 1, 1, depth};
}

void load_state(const float* initial, size_t offset, size_t n, float* state) {
  if (initial == nullptr) {
    std::fill(state, state + n, 0.0f);
  } else {
    std::copy(initial + offset, initial + offset + n, state);
  }
}

// From the sums of one batch element to its new h and c; `gates` [4 hidden] is overwritten.
void update(size_t hidden, const float* from_input, const float* bias, float* gates, float* h, float* c) {
  for (size_t i = 0; i < 4 * hidden; ++i) gates[i] = from_input[i] + gates[i];
  if (bias != nullptr) {
    for (size_t i = 0; i < 4 * hidden; ++i) gates[i] = (gates[i] + bias[i]) + bias[4 * hidden + i];
  }
  for (size_t i = 0; i < 3 * hidden; ++i) gates[i] = sigmoid(gates[i]);
  for (size_t i = 3 * hidden; i < 4 * hidden; ++i) gates[i] = hyperbolic_tangent(gates[i]);
  const float* out_gate = gates + hidden;
  const float* forget = gates + 2 * hidden;
  const float* candidate = gates + 3 * hidden;
  for (size_t i = 0; i < hidden; ++i) {
    const float kept = forget[i] * c[i];
    const float added = gates[i] * candidate[i];
    c[i] = kept + added;
    h[i] = out_gate[i] * hyperbolic_tangent(c[i]);
  }
}

}  // namespace

void Lstm::pack(const float* w, const float* r) {
  const MatmulShape of_w = gates_shape(1, 4 * g_.hidden, g_.input);
  const MatmulShape of_r = gates_shape(1, 4 * g_.hidden, g_.hidden);
  w_.resize(g_.directions * packed_b_floats(of_w));
  r_.resize(g_.directions * packed_b_floats(of_r));
  for (size_t d = 0; d < g_.directions; ++d) {
    pack_b(of_w, w + d * 4 * g_.hidden * g_.input, w_.data() + d * packed_b_floats(of_w), Workers{});
    pack_b(of_r, r + d * 4 * g_.hidden * g_.hidden, r_.data() + d * packed_b_floats(of_r), Workers{});
  }
}

// Parts: gates of all steps | gates of one step | h | c | packed operand of a product.
size_t Lstm::workspace_floats() const {
  const size_t gates = 4 * g_.hidden;
  const size_t packed = std::max(packed_a_floats(gates_shape(g_.steps * g_.batch, gates, g_.input)),
                                 packed_a_floats(gates_shape(g_.batch, gates, g_.hidden)));
  return (g_.steps + 1) * g_.batch * gates + 2 * g_.batch * g_.hidden + packed;
}

void Lstm::run(const float* bias, const LstmState& initial, const float* x, const LstmOutputs& out, float* workspace,
               const Workers& workers) const {
  const size_t gates = 4 * g_.hidden;
  const size_t state = g_.batch * g_.hidden;
  float* from_input = workspace;
  float* h = from_input + (g_.steps + 1) * g_.batch * gates;
  float* c = h + state;
  const MatmulShape shape = gates_shape(g_.steps * g_.batch, gates, g_.input);
  for (size_t d = 0; d < g_.directions; ++d) {
    load_state(initial.h, d * state, state, h);
    load_state(initial.c, d * state, state, c);
    matmul(shape, x, w_.data() + d * packed_b_floats(shape), from_input, nullptr, 0, c + state, workers);
    run_direction(d, bias, from_input, h, c, out.y, from_input + g_.steps * g_.batch * gates);
    if (out.h != nullptr) std::copy(h, h + state, out.h + d * state);
    if (out.c != nullptr) std::copy(c, c + state, out.c + d * state);
  }
}

void Lstm::run_direction(size_t direction, const float* bias, const float* from_input, float* h, float* c, float* y,
                         float* gates) const {
  const size_t width = 4 * g_.hidden;
  const MatmulShape shape = gates_shape(g_.batch, width, g_.hidden);
  const float* r = r_.data() + direction * packed_b_floats(shape);
  float* packed = c + g_.batch * g_.hidden;
  if (bias != nullptr) bias += direction * 2 * width;
  const bool backwards = g_.reverse || direction == 1;
  for (size_t i = 0; i < g_.steps; ++i) {
    const size_t t = backwards ? g_.steps - 1 - i : i;
    matmul(shape, h, r, gates, nullptr, 0, packed, Workers{});
    for (size_t b = 0; b < g_.batch; ++b) {
      update(g_.hidden, from_input + (t * g_.batch + b) * width, bias, gates + b * width, h + b * g_.hidden,
             c + b * g_.hidden);
    }
    if (y == nullptr) continue;
    std::copy(h, h + g_.batch * g_.hidden, y + (t * g_.directions + direction) * g_.batch * g_.hidden);
  }
}

}  // namespace refrt
