// Operators that map one float32 tensor element by element.
#pragma once

#include <string>

#include "backends/cpu/threads.h"
#include "kernels/epilogue.h"
#include "ops/op.h"

namespace refrt {

constexpr int64_t kElementGrain = 1 << 14;  // below this, waking a thread costs more than it saves

inline void prepare_unary(PrepareContext& context) {
  context.expect_counts(1, 1);
  context.expect_no_epilogue();
  context.require(same_shape(context.input(0), context.output(0)), "input and output differ in shape");
}

// out[i] = stage(in[i]) for a stage without channels: the very function a fused graph applies.
inline void run_stage(const RunContext& context, const Stage& stage) {
  const float* in = context.inputs[0]->f32();
  float* out = context.outputs[0]->f32();
  context.threads->parallel(context.outputs[0]->count(), kElementGrain, [&](int64_t begin, int64_t end, int) {
    apply_stage(stage, in + begin, out + begin, static_cast<size_t>(end - begin), 0);
  });
}

// out[i] = f(in[i]) for a scalar function.
template <typename F>
void run_map(const RunContext& context, F f) {
  const float* in = context.inputs[0]->f32();
  float* out = context.outputs[0]->f32();
  context.threads->parallel(context.outputs[0]->count(), kElementGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
  });
}

}  // namespace refrt
