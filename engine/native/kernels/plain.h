// The specification: every kernel written as plainly as its definition, with the order of operations that all
// fast kernels must reproduce bit for bit. Slow on purpose; used by tests only.
//
// Choices where ONNX leaves freedom:
//   - a sum starts from +0 and takes its products in ascending order, each product and each sum rounded;
//     Conv: input channel of the group, then kernel row, then kernel column; MatMul: k;
//   - padding holds zeros that take part in the sum (0 * Inf is NaN, as in the definition);
//   - the bias is added after the full sum;
//   - LSTM: gate = ((sum of x W + sum of h R) + Wb) + Rb; cell = (f * c) + (i * g); h = o * tanh(cell).
#pragma once

#include <cstddef>
#include <vector>

#include "conv.h"
#include "lstm.h"
#include "maths.h"

namespace refrt::plain {

inline float conv_element(const ConvGeometry& g, const float* in, const float* weights, size_t image, size_t channel,
                          size_t row, size_t column) {
  const size_t group_inputs = g.in_channels / g.groups;
  const size_t first_input = channel / (g.out_channels / g.groups) * group_inputs;
  float sum = 0.0f;
  for (size_t c = 0; c < group_inputs; ++c) {
    for (size_t ky = 0; ky < g.kernel_h; ++ky) {
      for (size_t kx = 0; kx < g.kernel_w; ++kx) {
        const size_t y = row * g.stride_h + ky * g.dilation_h;  // in padded coordinates
        const size_t x = column * g.stride_w + kx * g.dilation_w;
        const bool inside = y >= g.pad_top && y - g.pad_top < g.in_h && x >= g.pad_left && x - g.pad_left < g.in_w;
        float value = 0.0f;
        if (inside) {
          const size_t plane = image * g.in_channels + first_input + c;
          value = in[(plane * g.in_h + y - g.pad_top) * g.in_w + x - g.pad_left];
        }
        const float weight = weights[((channel * group_inputs + c) * g.kernel_h + ky) * g.kernel_w + kx];
        const float product = weight * value;
        sum = sum + product;
      }
    }
  }
  return sum;
}

// in [batch, in_channels, in_h, in_w], weights [out_channels, in_channels / groups, kernel_h, kernel_w], bias
// [out_channels] or null, out [batch, out_channels, out_h, out_w].
inline void conv(const ConvGeometry& g, const float* in, const float* weights, const float* bias, float* out) {
  for (size_t n = 0; n < g.batch; ++n) {
    for (size_t m = 0; m < g.out_channels; ++m) {
      for (size_t y = 0; y < g.out_h; ++y) {
        for (size_t x = 0; x < g.out_w; ++x) {
          const float sum = conv_element(g, in, weights, n, m, y, x);
          *out++ = bias == nullptr ? sum : sum + bias[m];
        }
      }
    }
  }
}

// a [m, k] · b [k, n] → out [m, n].
inline void matmul(size_t m, size_t n, size_t k, const float* a, const float* b, float* out) {
  for (size_t row = 0; row < m; ++row) {
    for (size_t column = 0; column < n; ++column) {
      float sum = 0.0f;
      for (size_t i = 0; i < k; ++i) {
        const float product = a[row * k + i] * b[i * n + column];
        sum = sum + product;
      }
      out[row * n + column] = sum;
    }
  }
}

// One step of one direction for one batch element; h and c [hidden] change in place. Gates in ONNX order i, o, f, c.
inline void lstm_step(const LstmGeometry& g, const float* x, const float* w, const float* r, const float* bias,
                      float* h, float* c) {
  std::vector<float> gates(4 * g.hidden);
  for (size_t gate = 0; gate < 4 * g.hidden; ++gate) {
    float from_input = 0.0f, from_hidden = 0.0f;
    for (size_t i = 0; i < g.input; ++i) from_input = from_input + x[i] * w[gate * g.input + i];
    for (size_t i = 0; i < g.hidden; ++i) from_hidden = from_hidden + h[i] * r[gate * g.hidden + i];
    float value = from_input + from_hidden;
    if (bias != nullptr) value = (value + bias[gate]) + bias[4 * g.hidden + gate];
    gates[gate] = value;
  }
  for (size_t j = 0; j < g.hidden; ++j) {
    const float in_gate = sigmoid(gates[j]);
    const float out_gate = sigmoid(gates[g.hidden + j]);
    const float forget = sigmoid(gates[2 * g.hidden + j]);
    const float candidate = hyperbolic_tangent(gates[3 * g.hidden + j]);
    const float kept = forget * c[j];
    const float added = in_gate * candidate;
    c[j] = kept + added;
    h[j] = out_gate * hyperbolic_tangent(c[j]);
  }
}

// Shapes as in lstm.h.
inline void lstm(const LstmGeometry& g, const LstmWeights& weights, const LstmState& initial, const float* x,
                 const LstmOutputs& out) {
  for (size_t d = 0; d < g.directions; ++d) {
    const bool backwards = g.reverse || d == 1;
    const float* bias = weights.bias == nullptr ? nullptr : weights.bias + d * 8 * g.hidden;
    for (size_t b = 0; b < g.batch; ++b) {
      const size_t state = (d * g.batch + b) * g.hidden;
      std::vector<float> h(g.hidden, 0.0f), c(g.hidden, 0.0f);
      if (initial.h != nullptr) h.assign(initial.h + state, initial.h + state + g.hidden);
      if (initial.c != nullptr) c.assign(initial.c + state, initial.c + state + g.hidden);
      for (size_t i = 0; i < g.steps; ++i) {
        const size_t t = backwards ? g.steps - 1 - i : i;
        lstm_step(g, x + (t * g.batch + b) * g.input, weights.w + d * 4 * g.hidden * g.input,
                  weights.r + d * 4 * g.hidden * g.hidden, bias, h.data(), c.data());
        if (out.y == nullptr) continue;
        float* y = out.y + ((t * g.directions + d) * g.batch + b) * g.hidden;
        for (size_t j = 0; j < g.hidden; ++j) y[j] = h[j];
      }
      for (size_t j = 0; j < g.hidden; ++j) {
        if (out.h != nullptr) out.h[state + j] = h[j];
        if (out.c != nullptr) out.c[state + j] = c[j];
      }
    }
  }
}

}  // namespace refrt::plain
