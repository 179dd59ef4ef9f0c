// DynamicQuantizeLinear (ONNX 11): uint8 codes whose scale and zero point follow from the least and largest value of
// this very tensor, 0 included. All of float32, one IEEE operation after another.
//
// A tensor of zeros has the scale 1, as in ONNX Runtime (the reference evaluator has 1/255; the codes are 0 in both).
// A NaN anywhere makes the scale NaN, so that it shows, and every code 0.
#include <algorithm>
#include <cmath>

#include "ops/affine.h"

namespace refrt {
namespace {

class DynamicQuantizeLinear : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(1, 1, 3);
    context.expect_no_epilogue();
    const Tensor& x = context.input(0);
    context.require(x.count() > 0, "nothing to take a range from");
    context.require(context.outputs.size() == 3, "three outputs are needed");
    context.require(same_shape(x, context.output(0, DType::uint8)), "input and output differ in shape");
    context.require(context.output(1).count() == 1 && context.output(2, DType::uint8).count() == 1,
                    "scale and zero point must be one value each");
  }

  void run(const RunContext& context) override {
    const float* in = context.inputs[0]->f32();
    const int64_t count = context.inputs[0]->count();
    float least = 0.0f, most = 0.0f;
    bool numbers = true;
    for (int64_t i = 0; i < count; ++i) {
      least = std::min(least, in[i]);  // a NaN is never less and never more
      most = std::max(most, in[i]);
      numbers &= in[i] == in[i];
    }
    const float scale = !numbers ? std::nanf("") : least == most ? 1.0f : (most - least) / 255.0f;
    const float zero = kept(std::nearbyint(kept(0.0f - least / scale)));
    *context.outputs[1]->f32() = scale;
    *static_cast<uint8_t*>(context.outputs[2]->data) = static_cast<uint8_t>(zero);
    uint8_t* out = static_cast<uint8_t*>(context.outputs[0]->data);
    context.threads->parallel(count, kAffineGrain, [=](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<uint8_t>(kept(std::nearbyint(in[i] / scale) + zero));
    });
  }

 private:
  // Within 0 … 255; 0 for what is no number.
  static float kept(float value) { return value > 255.0f ? 255.0f : value > 0.0f ? value : 0.0f; }
};

}  // namespace

REFRT_OPERATOR("DynamicQuantizeLinear", DynamicQuantizeLinear);

}  // namespace refrt
