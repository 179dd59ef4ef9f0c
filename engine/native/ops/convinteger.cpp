// ConvInteger (ONNX 10): the convolution of (x - x zero point) with (w - w zero point) as int32, exact; a sum never
// wraps around. The zero point of the weights is one value or one an output channel. Geometry: as Conv.
#include "ops/codeconv.h"

namespace refrt {
namespace {

class ConvInteger : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(2, 4);
    context.expect_no_epilogue();
    conv_.prepare(context, {0, 2, 1, 3}, context.output(0, DType::int32));
    if (conv_.products() > kMostInt32Products) context.unsupported("sums of more products than int32 holds");
  }

  void run(const RunContext& context) override {
    int32_t* out = static_cast<int32_t*>(context.outputs[0]->data);
    conv_.run(context, [=](size_t at, size_t, int64_t sum) { out[at] = static_cast<int32_t>(sum); });
  }

 private:
  CodeConv conv_;
};

}  // namespace

REFRT_OPERATOR("ConvInteger", ConvInteger);

}  // namespace refrt
