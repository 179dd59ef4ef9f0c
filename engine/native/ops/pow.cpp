// Pow with a constant exponent that is exact in IEEE operations: 0.5, 1, 2 or 3. Others are refused: a general pow
// would differ between chips.
#include <cmath>

#include "ops/elementwise.h"

namespace refrt {
namespace {

class Pow : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(2, 2);
    context.expect_no_epilogue();
    context.require(same_shape(context.input(0), context.output(0)), "input and output differ in shape");
    const Tensor& exponent = *context.inputs[1];
    if (!exponent.constant || exponent.count() != 1 || exponent.dtype != DType::float32) {
      context.unsupported("the exponent must be one constant float32");
    }
    exponent_ = exponent.f32()[0];
    if (exponent_ != 0.5f && exponent_ != 1.0f && exponent_ != 2.0f && exponent_ != 3.0f) {
      context.unsupported("exponent " + std::to_string(exponent_) + "; known: 0.5, 1, 2, 3");
    }
  }

  void run(const RunContext& context) override {
    if (exponent_ == 0.5f) {
      // Unlike sqrt, pow maps -0 to +0 and -inf to +inf.
      run_map(context, [](float x) { return x == -HUGE_VALF ? HUGE_VALF : std::sqrt(x) + 0.0f; });
    } else if (exponent_ == 1.0f) {
      run_map(context, [](float x) { return x; });
    } else if (exponent_ == 2.0f) {
      run_map(context, [](float x) { return x * x; });
    } else {
      run_map(context, [](float x) { return x * x * x; });
    }
  }

 private:
  float exponent_ = 0.0f;
};

}  // namespace

REFRT_OPERATOR("Pow", Pow);

}  // namespace refrt
